import json
import os
from pathlib import Path

import pytest
from minilm import minilm_folder

from embedrun.experiment.data import digest

SMALL = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16", "gpu=cpu", "gpu.threads=1")


def results(folder: str) -> dict:
    return json.loads((Path(folder) / "results.json").read_text(encoding="utf-8"))


def test_a_trained_model_scores_as_its_own_run_says(embedrun, tiny):
    ended = embedrun(
        "evaluate",
        f"model='{tiny.path / 'model'}'",
        "evaluation=heldout",
        "dataset=toy",
        *SMALL,
        "hydra.run.dir=e",
    )
    assert ended.code == 0, ended.err
    own = results(str(tiny.path))
    found = results("e")
    key = "toy_test/spearman"
    keys = [key, "toy_test/conflicting", "toy_test/agreeing"]
    assert found["scores"] == {key: pytest.approx(own["scores"][key], abs=1e-6) for key in keys}
    assert found["main"] == {"name": key, "value": found["scores"][key]}
    assert found["baseline"] == {}
    assert found["counts"] == {"heldout/heldout": 16}
    assert f"{own['scores'][key]:.2f}" in ended.out


def test_an_evaluation_leaves_a_run_directory_of_its_own(embedrun, tiny):
    ended = embedrun("evaluate", f"model='{tiny.path}'", "evaluation=heldout", "dataset=toy", *SMALL)
    assert ended.code == 0
    (folder,) = Path("outputs/evaluate").iterdir()
    assert ended.out.strip().splitlines()[-3:] == [
        f"model   {tiny.path}",
        f"report  file://{Path.cwd() / folder / 'report.html'}",
        "next    embedrun runs",
    ]
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "choices.yaml",
        "config.yaml",
        "environment.json",
        "overrides.yaml",
        "plots",
        "predictions",
        "report.html",
        "results.json",
        "run.log",
        "status.json",
    ]
    assert (folder / "choices.yaml").read_text() == (
        "pooling: auto\nprompts: declared\ndataset: toy\ngpu: cpu\nevaluation: heldout\n"
    )
    assert json.loads((folder / "status.json").read_text())["state"] == "finished"
    data = json.loads((folder / "environment.json").read_text())["data"]
    assert data[f"model {tiny.path}"] == digest(tiny.path / "model")


def test_what_is_missing_is_named_together(refused):
    said = refused("evaluate", "model=./nowhere", "data_dir=none", code=3)
    assert "input has 2 problems" in said
    assert "model './nowhere': no such folder" in said
    assert "sts/sts12.tsv.gz, sts/sts13.tsv.gz" in said
    assert "not in the data folder" in said
    assert "model=DIR" in said


@pytest.mark.realdata
@pytest.mark.slow
def test_minilm_scores_82_on_the_sts_benchmark(embedrun):
    # 82.03: what MTEB lists for it, STSBenchmark (test), Spearman of cosines.
    data = os.environ["EMBEDRUN_DATA"]
    ended = embedrun(
        "evaluate",
        f"model='{minilm_folder()}'",
        "evaluation=stsb",
        f"data_dir='{data}'",
        "gpu=cpu",
        "hydra.run.dir=e",
    )
    assert ended.code == 0, ended.err
    assert results("e")["scores"]["sts/stsb/spearman"] == pytest.approx(82.03, abs=0.02)
