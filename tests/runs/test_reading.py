"""The small files of a run directory, whole, missing and damaged."""

import json
from pathlib import Path

import pytest

from embedrun.errors import DataError
from embedrun.runs import reading
from embedrun.runs.reading import RunFiles, newest_first

PARTS = {"status": "status.json", "config": "config.yaml", "environment": "environment.json",
         "results": "results.json"}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory in which every file says its own name."""
    for part, file in PARTS.items():
        (tmp_path / file).write_text(json.dumps({"of": part}))  # which is YAML, too
    return tmp_path


def said(files: RunFiles) -> dict[str, object]:
    return {part: getattr(files, part).get("of") for part in PARTS}


@pytest.mark.parametrize("strict", [True, False])
def test_every_part_is_what_its_file_says_and_empty_where_there_is_none(run, strict):
    assert said(RunFiles.read(run, strict=strict)) == {part: part for part in PARTS}
    for part, file in PARTS.items():
        (run / file).unlink()
        assert getattr(RunFiles.read(run, strict=strict), part) == {}
    assert RunFiles.read(run / "nowhere", strict=strict).status == {}


def test_code_of_equal_values_is_that_of_now(run, monkeypatch):
    monkeypatch.setattr(reading, "SAME_CODE", {"then": "now"})
    (run / "environment.json").write_text('{"data": {"code loss angle": "then", "toy/test": ["then"]}}')
    assert RunFiles.read(run).data == {"code loss angle": "now", "toy/test": ["then"]}


DAMAGE = [
    ("results.json", ""), ("results.json", "[1]"), ("results.json", '{"a": NaN}'),
    ("config.yaml", "a: [1"), ("config.yaml", "a: !!python/object/apply:os.system [touch canary]"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "text"), DAMAGE, ids=lambda value: value[:20])
def test_a_damaged_file_is_refused_by_its_name_or_counts_as_empty(run, file, text):
    (run / file).write_text(text)
    with pytest.raises(DataError) as refused:
        RunFiles.read(run)
    (problem,) = refused.value.problems
    assert problem.startswith(f"{run / file}: ")
    assert "\n" not in problem
    assert len(problem) < len(str(run)) + 300
    found = said(RunFiles.read(run, strict=False))
    assert found == {part: None if own == file else part for part, own in PARTS.items()}


def test_a_run_is_as_old_as_its_end_its_last_sign_or_its_beginning_and_of_equals_the_last_is_newest(run):
    for status, when in (
        ({"started": "1", "heartbeat": "2", "ended": "3"}, "3"),
        ({"started": "1", "heartbeat": "2", "ended": None}, "2"),
        ({"started": "1"}, "1"),
    ):
        (run / "status.json").write_text(json.dumps(status))
        assert RunFiles(run).when == when
    first, second = RunFiles(Path("nowhere/x")), RunFiles(Path("nowhere/x.2"))
    assert newest_first([first, second]) == newest_first([second, first]) == [second, first]
