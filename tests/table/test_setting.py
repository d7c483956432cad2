from pathlib import Path

import pytest

from embedrun.table.preset import Scale, Setting


@pytest.mark.parametrize(
    "override",
    [
        "gpu=cpu",
        "gpu.threads=2",
        "data_dir=D",
        "dataset.path=D",
        "evaluation.precision=bf16",
        "+gpu.device=cpu",
    ],
)
def test_where_a_run_computes_and_reads_changes_nothing(override: str):
    assert Setting(extra=(override,)).changes == ()


@pytest.mark.parametrize(
    "override",
    ["training.max_steps=2", "backbone=tiny", "loss=raoe", "dataset.train_rows=1", "evaluation=sts"],
)
def test_what_it_trains_and_scores_does(override: str):
    assert Setting(extra=("gpu=cpu", override)).changes == (override,)


@pytest.mark.parametrize("key", ["backbone.name", "model"])
def test_a_folder_is_a_copy_of_the_rows_model_and_a_name_is_another(tmp_path: Path, key: str):
    (tmp_path / "a b").mkdir()
    copies = (f"{key}={tmp_path}", f"{key}='{tmp_path / 'a b'}'")
    assert Setting(extra=copies).changes == ()
    assert Setting(extra=(f"{key}=someone/other",)).changes == (f"{key}=someone/other",)


def test_a_reduced_setting_has_its_name():
    assert Setting(Scale("small", "a tenth")).name == "small"
    assert Setting().name == ""
