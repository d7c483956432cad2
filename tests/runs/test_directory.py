import errno
import json
import logging
import multiprocessing
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from embedrun.errors import ConfigError, DataError, EmbedrunError
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


def test_the_directory_is_named_by_time_and_six_digits_of_the_config_hash(monkeypatch):
    at_one_second(monkeypatch)
    path = Run.create("toy", CONFIG).path
    assert path == Path("outputs") / "toy" / f"2026-03-04_05-06-07-{config_hash(CONFIG)[:6]}"
    assert path.is_dir()


def test_the_same_second_and_configuration_give_different_directories(monkeypatch):
    at_one_second(monkeypatch)
    first, second, third = (Run.create("toy", CONFIG).path.name for _ in range(3))
    assert (second, third) == (f"{first}.2", f"{first}.3")


def test_fifty_processes_at_once_get_fifty_directories(monkeypatch):
    at_one_second(monkeypatch)
    context = multiprocessing.get_context("fork")  # no new interpreter
    together = context.Barrier(50)

    def create() -> None:
        together.wait()
        Run.create("toy", CONFIG)

    children = [context.Process(target=create) for _ in range(50)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0] * 50
    assert len(list(Path("outputs/toy").iterdir())) == 50


def test_a_given_directory_is_used_verbatim_and_its_parents_are_made():
    run = Run.create("toy", CONFIG, directory="a/b/c")
    assert run.path == Path("a/b/c")
    assert run.path.is_dir()


def test_a_given_directory_that_exists_is_refused_and_left_alone():
    Path("there").mkdir()
    Path("there/mine.txt").write_text("kept")
    with pytest.raises(ConfigError, match=r"hydra\.run\.dir: there exists"):
        Run.create("toy", CONFIG, directory="there")
    assert Path("there/mine.txt").read_text() == "kept"
    assert len(list(Path("there").iterdir())) == 1


@pytest.mark.parametrize("directory", ["file/run", "nul\0", "file"])
def test_a_directory_that_cannot_be_made_is_refused(directory: str):
    Path("file").write_text("a file")
    with pytest.raises(ConfigError, match=r"hydra\.run\.dir: "):
        Run.create("toy", CONFIG, directory=directory)


@pytest.mark.parametrize(
    "name",
    ["../x", "/abs", "nul\0", "a" * 101, "", "..", ".hidden", "-flag", "a\n", "é", "${seed}"],
)
def test_a_name_that_is_no_plain_folder_is_refused(name: str):
    with pytest.raises(ConfigError, match="name: expected up to 100 letters"):
        Run.create(name, CONFIG)
    assert not Path("outputs").exists()


@pytest.mark.parametrize("file", ["outputs", "outputs/toy"])
def test_a_file_where_the_folder_of_a_run_should_be_is_refused(file: str):
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).touch()
    with pytest.raises(ConfigError, match="outputs: cannot make a directory below 'outputs/toy'"):
        Run.create("toy", CONFIG)


def test_a_full_disk_is_no_fault_of_the_configuration(monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match="No space left"):
        Run.create("toy", CONFIG)


def test_the_hash_leaves_out_what_cannot_change_a_result():
    elsewhere = {**CONFIG, "data_dir": "DIR", "tracking": {"log_every": 1}, "name": "other"}
    assert config_hash(elsewhere) == config_hash(CONFIG)


def test_the_hash_changes_with_seed_and_options_and_not_with_their_order():
    assert config_hash({**CONFIG, "seed": 2}) != config_hash(CONFIG)
    assert config_hash({**CONFIG, "training": {"lr": 2e-3}}) != config_hash(CONFIG)
    assert config_hash(dict(reversed(CONFIG.items()))) == config_hash(CONFIG)


def test_start_writes_what_the_run_is_made_of():
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, ["seed=1"], {"python": "3"})
    assert yaml.safe_load((run.path / "config.yaml").read_text()) == {"schema": 1, **CONFIG}
    assert yaml.safe_load((run.path / "overrides.yaml").read_text()) == ["seed=1"]
    assert json.loads((run.path / "environment.json").read_text()) == {"python": "3"}
    status = json.loads((run.path / "status.json").read_text())
    assert status["state"] == "running"
    assert datetime.fromisoformat(status["started"]).tzinfo is not None


def test_the_status_keeps_earlier_fields_and_ends_with_state_and_error():
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, [], {})
    run.status(step=7)
    run.end("failed", "the loss is nan")
    status = json.loads((run.path / "status.json").read_text())
    assert (status["step"], status["state"], status["error"]) == (7, "failed", "the loss is nan")
    assert status["started"] <= status["ended"] == status["heartbeat"]


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


def test_after_its_end_a_run_logs_nothing_more():
    first, second = Run.create("toy", CONFIG), Run.create("toy", CONFIG)
    first.open_log()
    first.end("finished")
    second.open_log()
    logging.getLogger("embedrun").info("for the second")
    second.end("finished")
    assert (first.path / "run.log").read_text() == ""
    assert "for the second" in (second.path / "run.log").read_text()


def test_a_second_writer_of_a_directory_is_refused_until_the_first_has_ended():
    first = Run.create("toy", CONFIG)
    with pytest.raises(EmbedrunError, match="in use by another process") as refused:
        Run(first.path)
    assert refused.value.exit_code == 8
    first.end("finished")
    Run(first.path)


def content(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Bytes and time of the last change of every file."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()
    }


def interrupted() -> Path:
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, [], {})
    run.status(step=7, checkpoint=5)
    run.end("interrupted", "interrupted")
    return run.path


def test_to_claim_a_run_changes_nothing_in_it_and_keeps_others_out():
    path = interrupted()
    before = content(path)
    run = Run.claim(path)
    assert run.known["checkpoint"] == 5
    with pytest.raises(EmbedrunError, match="another process"):
        Run.claim(path)
    run.release()
    Run.claim(path).release()
    assert content(path) == before


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


def test_a_run_that_goes_on_clears_what_a_kill_left_half_written():
    path = interrupted()
    (path / "plots").mkdir()
    for name in (".status.json.123", ".results.json.77", "plots/.curves.png.5"):
        (path / name).write_text("{")
    (path / ".tmp-model").mkdir()
    Run.claim(path).go_on()
    assert list((path / "plots").iterdir()) == []
    assert {one.name for one in path.iterdir() if one.name.startswith(".")} == {
        ".lock",
        ".parts",
        ".tmp-model",
    }


def test_the_configuration_that_a_run_began_with_is_kept_until_it_has_finished():
    path = interrupted()
    assert RunFiles(path).began_with == CONFIG
    assert json.loads((path / "status.json").read_text())["config_sha256"] == config_hash(CONFIG)
    run = Run.claim(path)
    run.go_on()
    run.end("finished")
    assert not (path / ".parts").exists()
    assert RunFiles(path).began_with == {}


@pytest.mark.parametrize("text", ["{", "[1]", None])
def test_a_run_whose_status_is_broken_is_not_claimed_and_not_locked(text):
    path = interrupted()
    (path / "status.json").unlink() if text is None else (path / "status.json").write_text(text)
    for _ in range(2):
        with pytest.raises(DataError, match=r"status\.json: (cannot be read|holds no mapping)"):
            Run.claim(path)


def test_a_finished_run_is_not_claimed():
    run = Run.create("toy", CONFIG)
    run.start(CONFIG, [], {})
    run.end("finished")
    for _ in range(2):
        with pytest.raises(EmbedrunError, match="has finished meanwhile"):
            Run.claim(run.path)


def test_config_yaml_is_written_last_so_that_what_has_one_has_all(monkeypatch):
    written = []
    monkeypatch.setattr(module, "write_atomically", lambda path, _: written.append(path.name))
    Run.create("toy", CONFIG).start(CONFIG, [], {})
    assert written[-1] == "config.yaml"
    assert set(written) == {"status.json", "config.json", "overrides.yaml", "choices.yaml",
                            "environment.json", "config.yaml"}  # fmt: skip


def test_a_directory_in_which_no_run_has_begun_is_taken_again_only_where_that_is_asked_for():
    Run.create("toy", CONFIG, directory="there").open_log()
    with pytest.raises(ConfigError, match=r"hydra\.run\.dir: there exists"):
        Run.create("toy", CONFIG, directory="there")
    run = Run.create("toy", CONFIG, directory="there", again=True)
    run.start(CONFIG, [], {})
    run.release()
    with pytest.raises(ConfigError, match=r"hydra\.run\.dir: there exists"):
        Run.create("toy", CONFIG, directory="there", again=True)


def test_where_a_run_meets_others_and_whether_it_looks_for_one_is_not_hashed():
    config = {
        **CONFIG,
        "training": {"lr": 1e-3, "resume": "never"},
        "gpu": {"processes": 2, "rendezvous": "a:1"},
    }
    again = {
        **config,
        "training": {"lr": 1e-3, "resume": "auto"},
        "gpu": {"processes": 2, "rendezvous": "b:2"},
    }
    assert config_hash(again) == config_hash(config)
    assert config_hash({**config, "gpu": {"processes": 3, "rendezvous": "a:1"}}) != config_hash(config)


def test_how_a_run_ended_has_no_control_character():
    run = Run.create("x", {}, directory="run")
    run.end("failed", "b\udcff: no answer of https://host\x1b")
    error = json.loads(Path("run/status.json").read_text())["error"]
    assert error == "b\ufffd: no answer of https://host\ufffd"
