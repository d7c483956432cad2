from pathlib import Path

import pytest

from embedrun.config import presets
from embedrun.config.presets import Open, choices_of, left_open, lines, named

# Their released commands say everything, or no paper stands behind them.
CLOSED = {"quickstart", "simcse_bert", "simcse_unsupervised_bert"}

LISTED = """# @package _global_
# A paper, Table 1.
#
# From the paper: BERT-base, lr 1e-5.
# Assumed where the paper is silent: as other, and
#   - lr 5e-5: the released command,
#     which has it twice
#   - no decay
# Another sentence, which assumed nothing.
defaults: [other]
# Assumed: not of the head
"""


def test_an_item_of_the_list_behind_the_word_is_a_choice_and_so_is_what_stands_before_it():
    assert choices_of(LISTED) == ["as other", "lr 5e-5: the released command, which has it twice", "no decay"]


@pytest.mark.parametrize(
    ("head", "choices"),
    [
        ("# No options are given. Assumed: those of one,\n# and lr 1.", ["those of one, and lr 1."]),
        ("# None is given; assumed are those of one.", ["None is given; assumed are those of one."]),
        (
            "# The paper does not name the model; taken is B.",
            ["The paper does not name the model; taken is B."],
        ),
        ("# Assumed: a. And b.\n#\n# Not this.", ["a.", "And b."]),
        ("# A list:\n#   - lr 1", []),
        ("", []),
    ],
)
def test_without_a_list_the_rest_of_the_paragraph_counts(head, choices):
    assert choices_of(f"{head}\nname: x\n") == choices


def test_an_experiment_brings_the_choices_of_those_that_it_builds_on_each_once(tmp_path: Path):
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "a.yaml").write_text("# Assumed: lr 1.\ndefaults: [b, c, override /loss: angle, _self_]\n")
    (folder / "b.yaml").write_text("# Assumed: lr 2.\ndefaults: [c]\n")
    (folder / "c.yaml").write_text("# Assumed: lr 3.\u202e\nname: c\n", encoding="utf-8")
    found = left_open(["a", "nowhere"], [tmp_path])
    assert [one.experiment for one in found] == ["a", "b", "c"]
    shown = lines(found)
    assert shown[1:3] == ["left open by the paper, and chosen in a:", "  - lr 1."]
    assert "left open by the paper, and chosen in b, which it builds on:" in shown
    assert "\u202e" not in "".join(shown)


def test_a_long_choice_is_wrapped():
    (_, _, *shown) = lines([Open("a", ["word " * 40])])
    assert len(shown) == 2
    assert shown[1].startswith("    word")


def test_the_experiments_of_a_command_line_are_found():
    assert named(["+experiment=a", "seed=1", "++experiment=[b, c]"]) == ["a", "b", "c"]


@pytest.mark.parametrize("name", sorted(set(presets.groups()["experiment"]) - CLOSED))
def test_every_experiment_of_a_paper_says_what_the_paper_leaves_open(name):
    found = left_open([name])
    assert found
    assert all(choice for one in found for choice in one.choices)
