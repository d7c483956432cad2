import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from embedrun import family
from embedrun.config import Checker, presets
from embedrun.dataset.pairs import Pairs


def preset(name: str, *overrides: str) -> dict:
    with initialize_config_dir(str(presets.folder() / "dataset"), version_base="1.3"):
        options = OmegaConf.to_container(compose(name, overrides=list(overrides)), resolve=True)
    assert isinstance(options, dict)
    return {str(key): value for key, value in options.items()}


GIVEN = {name: ["path=a.tsv"] for name in ("pairs", "texts", "triplets", "ranked", "classes")} | {
    "mix": ["+parts.a.dataset=toy"]
}


@pytest.mark.parametrize("name", presets.groups()["dataset"])
def test_a_preset_fits_the_signature_of_its_class(name):
    options = preset(name, *GIVEN.get(name, []))
    cls = family.find("dataset", options.pop("name"))
    checker = Checker()
    checker.signature(cls, options, "dataset")
    assert checker.problems == []
    cls(**options)


def test_a_column_map_on_the_command_line_replaces_the_whole_map():
    options = preset("pairs", "path=a.csv", "columns={text1: q, text2: a, label: gold}")
    assert options.pop("name") == "pairs"
    assert Pairs(**options).targets == ("label",)
