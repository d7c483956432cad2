import json
from pathlib import Path

import pytest

from embedrun.backbone import locate
from embedrun.errors import DataError
from embedrun.runs.search import settle, settled


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(place: str, *, ended: str | None, state: str = "finished", model: bool = True) -> Path:
    folder = Path("outputs") / place
    folder.mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({"state": state, "ended": ended}))
    if model:
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text("{}")
        (folder / "model" / "model.safetensors").write_bytes(b"")
        (folder / "model" / "tokenizer.json").write_text("{}")
    return folder


def test_the_run_that_ended_last_is_meant_from_wherever_one_looks(monkeypatch, tmp_path):
    run("s1/2025-01-03-a", ended="2025-01-03T10:00:00+00:00")
    last = run("s1/2025-01-01-b", ended="2025-01-04T10:00:00+00:00").resolve()
    run("s10/2025-01-05-c", ended="2025-01-05T10:00:00+00:00")
    found = settle("run:s1")
    assert found == str(last)
    assert locate("run:s1") == last / "model"
    monkeypatch.chdir("/")
    assert locate(found) == last / "model"


def test_runs_that_have_not_finished_and_runs_without_a_model_do_not_count():
    first = run("s1/a", ended="2025-01-01T10:00:00+00:00")
    run("s1/b", ended="2025-01-02T10:00:00+00:00", state="failed")
    run("s1/c", ended=None, state="running")
    run("s1/d", ended="2025-01-04T10:00:00+00:00", model=False)
    (run("s1/e", ended="") / "status.json").write_text("{")
    Path("outputs/s1/notes.txt").touch()
    assert settle("run:s1") == str(first.resolve())


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("outputs/raoe_frist", "no run or folder here has this name; did you mean 'run:raoe_first'? "),
        ("run:typo", "named typo below outputs; runs with a model: run:raoe_first; name one: a run d"),
    ],
)
def test_a_name_of_no_run_folder_or_model_is_answered_with_what_is_near_and_the_forms(word, said):
    run("raoe_first/a", ended="2025-01-01T10:00:00+00:00")
    run("raoe_failed/b", ended="2025-01-01T10:00:00+00:00", state="failed")
    with pytest.raises(DataError) as caught:
        locate(word)
    (problem,) = caught.value.problems
    assert said in problem
    assert "huggingface.co" not in problem


@pytest.mark.parametrize("name", ["run:", "run:s1/../s1/a", "run:/s1"])
def test_a_name_cannot_leave_the_folder(name):
    run("s1/a", ended="2025-01-01T10:00:00+00:00")
    with pytest.raises(DataError, match="name one: a run directory, run:NAME"):
        settle(name)


def test_a_configuration_is_settled_wherever_a_model_is_named():
    place = str(run("s1/a", ended="2025-01-01T10:00:00+00:00").resolve())
    plain = {
        "name": "s2",
        "backbone": {"name": "run:s1", "revision": None},
        "training": {"teachers": [{"name": "run:s1"}, {"name": "owner/model"}]},
        "model": "run:nothing_yet",
        "loss": {"terms": {"a": {"name": {"odd": ["run:s1"]}}}},
    }
    assert settled(plain) == {
        "name": "s2",
        "backbone": {"name": place, "revision": None},
        "training": {"teachers": [{"name": place}, {"name": "owner/model"}]},
        "model": "run:nothing_yet",
        "loss": {"terms": {"a": {"name": {"odd": ["run:s1"]}}}},
    }
