import json
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from embedrun.errors import ConfigError, EmbedrunError
from embedrun.runs import directory as module
from embedrun.runs.directory import Run, config_hash
from embedrun.runs.reading import RunFiles

CONFIG = {"seed": 1, "training": {"lr": 1e-3}}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def at_one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 3, 4, 5, 6, 7, tzinfo=tz)

    monkeypatch.setattr(module, "datetime", Stopped)


def test_a_directory_is_named_by_time_and_config_hash_and_the_same_second_gives_others(monkeypatch):
    at_one_second(monkeypatch)
    first, second, third = (Run.create("toy", CONFIG).path for _ in range(3))
    assert first == Path("outputs") / "toy" / f"2026-03-04_05-06-07-{config_hash(CONFIG)[:6]}"
    assert (second.name, third.name) == (f"{first.name}.2", f"{first.name}.3")


def test_a_given_directory_that_exists_is_refused_and_left_alone():
    Path("there").mkdir()
    Path("there/mine.txt").write_text("kept")
    with pytest.raises(ConfigError, match=r"hydra\.run\.dir: there exists"):
        Run.create("toy", CONFIG, directory="there")
    assert Path("there/mine.txt").read_text() == "kept"
    assert len(list(Path("there").iterdir())) == 1


@pytest.mark.parametrize(
    "name",
    ["../x", "/abs", "a" * 101, "", "${seed}"],
)
def test_a_name_that_is_no_plain_folder_is_refused(name: str):
    with pytest.raises(ConfigError, match="name: expected up to 100 letters"):
        Run.create(name, CONFIG)
    assert not Path("outputs").exists()


def test_start_writes_what_the_run_is_made_of():
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, ["seed=1"], {"python": "3"})
    assert yaml.safe_load((run.path / "config.yaml").read_text()) == {"schema": 1, **CONFIG}
    assert yaml.safe_load((run.path / "overrides.yaml").read_text()) == ["seed=1"]
    assert json.loads((run.path / "environment.json").read_text()) == {"python": "3"}
    status = json.loads((run.path / "status.json").read_text())
    assert status["state"] == "running"
    assert datetime.fromisoformat(status["started"]).tzinfo is not None


def test_the_log_holds_the_traceback_and_no_control_character():
    run = Run.create("toy", CONFIG)
    log = run.open_log()
    try:
        raise ValueError("\x1b]0;title\x07")
    except ValueError:
        log.exception("row %s", "a\x9bb")
    run.end("failed")
    text = (run.path / "run.log").read_text(encoding="utf-8")
    assert "Traceback" in text
    assert "\ufffd]0;title\ufffd" in text
    assert "a\ufffdb" in text
    assert not set(text) & {"\x1b", "\x07", "\x9b"}


def test_a_second_writer_of_a_directory_is_refused_until_the_first_has_ended():
    first = Run.create("toy", CONFIG)
    with pytest.raises(EmbedrunError, match="in use by another process") as refused:
        Run(first.path)
    assert refused.value.exit_code == 8
    first.end("finished")
    Run(first.path)


def interrupted() -> Path:
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, [], {})
    run.status(step=7, checkpoint=5)
    run.end("interrupted", "interrupted")
    return run.path


def test_a_run_that_goes_on_keeps_what_its_status_said_and_counts_its_attempts():
    path = interrupted()
    for attempt in (2, 3):
        run = Run.claim(path)
        run.go_on()
        status = json.loads((path / "status.json").read_text())
        assert (status["state"], status["attempts"], status["error"]) == ("running", attempt, None)
        assert (status["ended"], status["checkpoint"]) == (None, 5)
        assert status["started"] <= status["resumed"]
        run.end("failed", "no luck")


def test_the_configuration_that_a_run_began_with_is_kept_until_it_has_finished():
    path = interrupted()
    assert RunFiles(path).began_with == CONFIG
    assert json.loads((path / "status.json").read_text())["config_sha256"] == config_hash(CONFIG)
    run = Run.claim(path)
    run.go_on()
    run.end("finished")
    assert not (path / ".parts").exists()
    assert RunFiles(path).began_with == {}


def test_a_finished_run_is_not_claimed():
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, [], {})
    run.end("finished")
    for _ in range(2):
        with pytest.raises(EmbedrunError, match="has finished meanwhile"):
            Run.claim(run.path)


def test_a_directory_in_which_no_run_has_begun_is_taken_again_only_where_that_is_asked_for():
    Run.create("toy", CONFIG, directory="there").open_log()
    with pytest.raises(ConfigError, match=r"hydra\.run\.dir: there exists"):
        Run.create("toy", CONFIG, directory="there")
    run = Run.create("toy", CONFIG, directory="there", again=True)
    run.start(CONFIG, [], {})
    run.release()
    with pytest.raises(ConfigError, match=r"hydra\.run\.dir: there exists"):
        Run.create("toy", CONFIG, directory="there", again=True)
