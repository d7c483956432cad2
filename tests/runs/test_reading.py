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
    *(("results.json", text) for text in ("", "{", "[1]", "null", "\x00", '{"a": NaN}')),
    *(("config.yaml", text) for text in ("a: [1", "- 1", "a: .inf", "a: !!bool maybe", "2026-01-01: a date",
                                         "a: !!python/object/apply:os.system [touch canary]")),
    ("status.json", "{"), ("environment.json", "{"),
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


@pytest.mark.parametrize("file", ["results.json", "config.yaml"])
def test_what_is_no_text_or_no_file_is_damaged_too(run, file):
    (run / file).write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=f"{file}: cannot be read"):
        RunFiles.read(run)
    assert None in said(RunFiles.read(run, strict=False)).values()
    (run / file).unlink()
    (run / file).mkdir()
    with pytest.raises(DataError, match=rf"{file}: cannot be read \(.*Is a directory"):
        RunFiles.read(run)
    assert None in said(RunFiles.read(run, strict=False)).values()


def test_a_file_is_read_when_it_is_asked_for_and_once(run, monkeypatch):
    read = []
    text = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: read.append(path.name) or text(path, **how))
    files = RunFiles.read(run, strict=False)
    assert read == []
    assert files.status is files.status
    assert read == ["status.json"]
    RunFiles.read(run)
    assert sorted(read[1:]) == sorted(PARTS.values())
    files = RunFiles.read(run)
    (run / "results.json").write_text("{")
    assert files.results == {"of": "results"}


@pytest.mark.parametrize(
    ("status", "when"),
    [
        ({"started": "1", "heartbeat": "2", "ended": "3"}, "3"),
        ({"started": "1", "heartbeat": "2", "ended": None}, "2"),
        ({"started": "1"}, "1"),
        ({}, ""),
    ],
)
def test_a_run_is_as_old_as_its_end_its_last_sign_or_its_beginning(run, status, when):
    (run / "status.json").write_text(json.dumps(status))
    assert RunFiles(run).when == when


def test_of_runs_of_one_second_that_with_the_last_path_is_the_newest():
    first, second = RunFiles(Path("nowhere/x")), RunFiles(Path("nowhere/x.2"))
    assert newest_first([first, second]) == newest_first([second, first]) == [second, first]


@pytest.mark.parametrize("odd", [1, None, [], {}])
def test_a_word_or_a_mapping_of_another_type_says_nothing(run, odd):
    (run / "status.json").write_text(json.dumps({"state": odd, "config_sha256": odd}))
    (run / "environment.json").write_text(json.dumps({"data": odd}))
    (run / "results.json").write_text(json.dumps({"main": odd, "scores": odd}))
    files = RunFiles.read(run)
    assert (files.state, files.is_finished, files.config_sha256) == (None, False, None)
    assert (files.data, files.main, files.scores) == ({}, {}, {})
