import json

import pytest

from embedrun.report import gather
from embedrun.runs.directory import to_yaml
from embedrun.runs.reading import RunFiles


@pytest.fixture
def run(tmp_path):
    """A run directory of which nothing but its state is there yet."""
    return RunFiles(tmp_path, {"state": "running"}, {}, {}, {})


def test_a_run_that_has_only_begun_has_a_page(run):
    facts = gather(run)
    assert (facts.headline, facts.panels, facts.images, facts.worst, facts.seen) == (None, [], [], [], [])
    assert (facts.config, facts.repeat, facts.remarks) == ("", "", [])
    assert facts.name == run.path.name
    assert facts.go_on == f"embedrun resume {run.path}"


def test_the_command_that_repeats_a_run_is_quoted_for_a_shell(run):
    run.status["state"] = "finished"
    run.config.update({"schema": 1, "name": "x", "training": {"lr": 1}})
    (run.path / "overrides.yaml").write_text(
        to_yaml(["+experiment=angle_bert", "loss.terms={a: 1}", "name=it's"])
    )
    facts = gather(run)
    assert facts.repeat == """embedrun train +experiment=angle_bert 'loss.terms={a: 1}' 'name=it'"'"'s'"""
    assert facts.go_on == ""
    assert "schema" not in facts.config


@pytest.mark.parametrize(
    ("typed", "end"),
    [
        ("embedrun train --config-dir 'my own' +experiment=x", " --config-dir 'my own'"),
        ("embedrun train -cd a +experiment=x --config-dir=b", " --config-dir b"),
        ("embedrun train +experiment=x", ""),
        ("embedrun train --config-dir 'not closed", ""),
        (["embedrun"], ""),
    ],
)
def test_the_folder_of_ones_own_yaml_is_named_again(run, typed, end):
    run.config.update({"name": "x", "training": {}})
    run.environment["command"] = typed
    (run.path / "overrides.yaml").write_text(to_yaml(["+experiment=x"]))
    assert gather(run).repeat == f"embedrun train +experiment=x{end}"


def test_an_evaluation_is_repeated_by_evaluate(run):
    run.config["model"] = "m"
    assert gather(run).repeat == "embedrun evaluate"


@pytest.mark.parametrize("text", ["{", "- [1]\n", "just text", "- &a [x]\n- *a\n", "\x00", "- !!bool a"])
def test_overrides_that_cannot_be_read_are_a_remark(run, text):
    (run.path / "overrides.yaml").write_text(text)
    assert gather(run).remarks == ["overrides.yaml cannot be read"]


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_contamination_that_cannot_be_read_is_a_remark(run, text):
    (run.path / "contamination.json").write_text(text)
    assert gather(run).remarks == ["contamination.json cannot be read"]


def test_lines_of_metrics_that_cannot_be_read_are_counted_in_a_remark(run):
    row = {"step": 1, "split": "train", "name": "loss", "value": 2.0}
    (run.path / "metrics.jsonl").write_text(json.dumps(row) + '\n{"step": 2, "sp')
    facts = gather(run)
    assert facts.remarks == ["metrics.jsonl: 1 of its lines cannot be read"]
    assert len(facts.panels) == 1


def test_what_has_everything_says_everything(rich):
    facts = rich("word")
    assert facts.headline is not None
    assert facts.headline.to_paper == "−2.00"
    assert [panel.title for panel in facts.panels] == [
        "Loss and dev scores", "Terms of the loss", "Comparisons of the terms"
    ]  # fmt: skip
    assert [found.name for found in facts.worst] == ["word", "word dev"]
    assert facts.remarks == ["word is broken"]
    assert facts.scores.lost == {"word only": "1.00"}
