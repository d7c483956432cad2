"""A composed configuration has the comments of the files that it was composed from, and is the same YAML."""

import pytest
import yaml

from embedrun.cli import main
from embedrun.config.comments import Comment, commented, joined, read

FILE = """# Head.
# @package _global_
a: 1 # of a
b: # of b
  # above c
  # and more
  c: "# no comment" # of c
  d: [1, 2] # of d
e: 2
"""


def test_a_comment_is_of_the_option_below_or_before_it():
    assert read(FILE, ("x",)) == {
        ("x",): Comment(("# Head.",)),
        ("x", "a"): Comment((), "# of a"),
        ("x", "b"): Comment((), "# of b"),
        ("x", "b", "c"): Comment(("# above c", "# and more"), "# of c"),
        ("x", "b", "d"): Comment((), "# of d"),
    }


def test_comments_stand_where_the_options_went():
    shown = "# @package x\nb:\n  d:\n  - 1\n  c: 3\na: 1\n"
    assert commented(shown, read(FILE, ("x",)), ("x",)) == (
        "# @package x\n# Head.\n\nb:  # of b\n  d:  # of d\n  - 1\n  # above c\n  # and more\n"
        "  c: 3  # of c\na: 1  # of a\n"
    )


def test_of_two_files_the_later_is_said():
    first, second = read("a: 1 # one\nb: 1 # b"), read("a: 2 # two\nb: 2")
    assert joined([first, second]) == {("a",): Comment((), "# two"), ("b",): Comment((), "# b")}


def test_a_text_of_several_lines_has_its_comment_above():
    text = "a: |-\n  one\n  two\n"
    assert commented(text, {("a",): Comment((), "# of a")}) == f"# of a\n{text}"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train +experiment=angle_stsb training.lr=3e-5", ["  lr: 3.0e-05", "# Published: 86.26"]),
        ("train +experiment=arccse_bert", ["# share of the words that the first copy hides"]),
        ("evaluate model=a evaluation=none", ["model: a  # hub id", "# No test suite; the dev score alone."]),
        ("annotate", ["  num_negatives: 3\n  range_min: 0  # nearest candidates"]),
    ],
)  # fmt: skip
def test_cfg_job_keeps_comments_and_stays_the_same_yaml(line: str, words: list[str], capsys, monkeypatch):
    assert main([*line.split(), "--cfg", "job"]) == 0
    shown = capsys.readouterr().out
    assert [word for word in words if word not in shown] == []
    monkeypatch.setattr("embedrun.config.comments.commented", lambda text, *_: text)
    assert main([*line.split(), "--cfg", "job"]) == 0
    plain = capsys.readouterr().out
    assert "#" not in plain
    assert yaml.safe_load(shown) == yaml.safe_load(plain)


def test_a_part_of_a_configuration_keeps_its_comments_too(capsys):
    assert main(["train", "--cfg", "job", "--package", "training"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# @package training"
    assert "batch_size: 32  # rows that the losses compare with each other" in lines
    assert main(["train", "--cfg", "job", "--package", "training.batch_size"]) == 0
    assert capsys.readouterr().out == "32\n"


def test_a_users_own_files_are_read_for_comments_too(tmp_path, capsys):
    (tmp_path / "pooling").mkdir()
    (tmp_path / "pooling" / "own.yaml").write_text("name: max # ours\n")
    assert main(["train", "pooling=own", "--config-dir", str(tmp_path), "--cfg", "job"]) == 0
    assert "  name: max  # ours" in capsys.readouterr().out
