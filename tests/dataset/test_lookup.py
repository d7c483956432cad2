import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from embedrun import family
from embedrun.config import Checker, presets
from embedrun.dataset import graded
from embedrun.dataset.pairs import Pairs
from embedrun.rows import Rows
from embedrun.store import Store


def preset(name: str, *overrides: str) -> dict:
    with initialize_config_dir(str(presets.folder() / "dataset"), version_base="1.3"):
        options = OmegaConf.to_container(compose(name, overrides=list(overrides)), resolve=True)
    assert isinstance(options, dict)
    return {str(key): value for key, value in options.items()}


def test_modules_without_a_data_set_have_no_name():
    assert {"stsb", "sts", "sickr", "nli", "pairs"} <= set(family.names("dataset"))
    parts = {"column_map", "columns", "own_splits", "user_files"}
    assert not parts & set(family.names("dataset"))


@pytest.mark.parametrize("name", presets.groups()["dataset"])
def test_a_preset_fits_the_signature_of_its_class(name):
    options = preset(name, *(["path=a.tsv"] if name in ("pairs", "texts", "triplets") else []))
    cls = family.find("dataset", options.pop("name"))
    checker = Checker()
    checker.signature(cls, options, "dataset")
    assert checker.problems == []
    cls(**options)


def test_a_column_map_on_the_command_line_replaces_the_whole_map():
    options = preset("pairs", "path=a.csv", "columns={text1: q, text2: a, label: gold}")
    assert options.pop("name") == "pairs"
    assert Pairs(**options).targets == ("label",)


class Outside:
    """What a package may bring: it inherits from nothing of ours and leaves out what may be left out."""

    name, form, targets, splits = "outside", "pair", ("score",), ("train", "dev")

    def problems(self, split: str, store: Store) -> list[str]:
        return [f"no {split}"]

    def read(self, split: str, store: Store) -> Rows:
        raise AssertionError("nothing is read")


def test_splits_are_graded_where_a_data_set_says_so():
    data_set = Outside()
    data_set.targets = ()
    assert not graded(data_set, "dev")
    data_set.graded = ("dev", "test")  # type: ignore[attr-defined]
    assert [graded(data_set, split) for split in ("train", "dev", "test")] == [False, True, False]
