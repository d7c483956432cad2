"""Where conf/ is, and what an experiment leaves open."""

from pathlib import Path

from embedrun.config import presets
from embedrun.config.presets import remarks


def test_a_wheel_has_them_inside_the_package(tmp_path: Path, monkeypatch):
    inside = tmp_path / "embedrun" / "conf"
    inside.mkdir(parents=True)
    (tmp_path / "conf").mkdir()
    monkeypatch.setattr(presets, "_PACKAGE", tmp_path / "embedrun")
    assert presets.folder() == inside


def test_a_preset_is_what_it_builds_on_its_choices_and_its_own_options(tmp_path: Path):
    (tmp_path / "loss" / "own").mkdir(parents=True)
    (tmp_path / "loss" / "own" / "a.yaml").write_text(
        "defaults: [b, /loss/angle, _self_, {override /dataset: toy}, {optional gpu: cpu}]\nterms: {}\n"
    )
    (tmp_path / "train.yaml").touch()
    assert presets.read(tmp_path, "loss/own/a") == (
        ["loss/own/b", "loss/angle"],
        {"dataset": "toy", "gpu": "cpu"},
        {"terms": {}},
    )
    assert presets.read(tmp_path, "train") == ([], {}, {})


# No paper stands behind it.
CLOSED = {"quickstart", "mlm"}

EXPERIMENTS = presets.groups()["experiment"]
# One word and a colon, which could be `# open:` misspelt, or a comment neither one nor three blanks in.

HEAD = """# @package _global_
# A paper, Table 1.
#
#   embedrun train +experiment=x
#
# From the paper: BERT-base, lr 1e-5.
# open: lr 5e-5: the released command,
#   which has it
#   twice
# open: no decay
# The rest is a sentence.
#   Further in, but below no choice.
name: x
"""


def test_a_line_is_a_choice_and_goes_on_where_the_next_is_further_in(tmp_path: Path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "x.yaml").write_text(HEAD)
    choices = ["lr 5e-5: the released command, which has it twice", "no decay"]
    assert remarks(["x"], [tmp_path]) == {"x": choices}


def test_an_experiment_brings_the_choices_of_those_that_it_builds_on_each_once(tmp_path: Path):
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "a.yaml").write_text("# open: lr 1.\ndefaults: [b, c, override /loss: angle, _self_]\n")
    (folder / "b.yaml").write_text("# open: lr 2.\ndefaults: [c]\n")
    (folder / "c.yaml").write_text("# open: lr 3.\nname: c\n")
    found = remarks(["a", "nowhere"], [tmp_path])
    assert list(found) == ["a", "b", "c"]
    assert found["b"] == ["lr 2."]


def test_every_experiment_of_a_paper_says_what_the_paper_leaves_open():
    for name in set(EXPERIMENTS) - CLOSED:
        found = remarks([name])
        assert found, name
        assert all(choice for choices in found.values() for choice in choices), name
