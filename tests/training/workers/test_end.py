"""One verdict of many processes and machines."""

import json
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from embedrun.errors import RunFailed, Terminated
from embedrun.runs.directory import Outcome, Run
from embedrun.training.workers import end
from embedrun.training.workers.end import End, Machines, Verdict, first_said, of_all, settle, verdict

KILLED = End(rank=1, code=-9, time=5.0)
# Of the killed one the launcher knows the second, of this one the report: it may seem to be the first.
ALONE = End(rank=0, code=1, time=4.9, error="another process has ended", said=1, lost=True)
HELD = End(rank=2, code=-15, time=6.0)


def report(folder: Path, rank: int, **more) -> None:
    outcome = {"directory": None, "main": None, "error": more.pop("error", None), "code": more.pop("code", 0)}
    whole = {"outcome": outcome, "lost": False, "time": 7.5, "traceback": "", **more}
    (folder / f"{rank}.json").write_text(json.dumps(whole))


def test_a_process_that_was_killed_left_only_what_it_had_printed(tmp_path: Path):
    (tmp_path / "1.log").write_bytes(b"Fatal Python error\xff\n")
    assert End.read(tmp_path, 1, -11, 3.0) == End(1, -11, 3.0, trace="Fatal Python error\ufffd\n")
    assert End.read(tmp_path, 2, -9, 3.0) == End(2, -9, 3.0)


def test_a_process_that_failed_says_when_why_and_where(tmp_path: Path):
    report(tmp_path, 1, error="loss is nan", code=4, traceback="Traceback ...")
    (tmp_path / "1.log").write_text("progress")
    assert End.read(tmp_path, 1, 4, 9.0) == End(1, 4, 7.5, "loss is nan", 4, trace="Traceback ...")


def test_the_first_process_says_how_the_run_ended(tmp_path: Path):
    assert first_said(tmp_path) is None
    report(tmp_path, 0, error="loss is nan", code=4)
    assert first_said(tmp_path) == Outcome(error="loss is nan", code=4)


def test_what_was_killed_is_the_reason_and_not_those_that_missed_it():
    found = verdict([ALONE, HELD, KILLED], size=3)
    assert (found.kind, found.code, found.told) == ("died", 1, False)
    assert found.error == (
        "process 2 of 3 (rank 1) was killed by signal 9 (SIGKILL), as the kernel does where memory runs out"
    )


def test_a_failure_of_ours_keeps_its_exit_code():
    full = End(rank=1, code=6, time=5.0, error="out of memory", said=6, trace="Traceback")
    found = verdict([full, ALONE], size=2)
    assert (found.error, found.code) == ("process 2 of 2 (rank 1): out of memory", 6)
    assert (found.trace, found.told) == ("Traceback", False)


def test_where_all_failed_alike_the_first_process_has_the_word():
    ends = [End(rank, 4, 5.0 - rank, "loss is nan", 4) for rank in range(3)]
    found = verdict(ends, size=3, first=Outcome(error="loss is nan", code=4))
    assert (found.error, found.code, found.told) == ("loss is nan", 4, True)


def test_of_two_deaths_the_first_is_the_reason():
    later = End(rank=2, code=-11, time=6.0)
    assert "(rank 1)" in (verdict([later, KILLED], size=3).error or "")


def test_a_process_may_end_with_an_exit_code_and_no_word():
    assert verdict([End(1, 3, 5.0)], size=2).error == "process 2 of 2 (rank 1) ended with exit code 3"


def test_the_run_has_finished_once_the_first_process_has():
    first = Outcome("run", {"name": "x", "value": 1.0})
    assert verdict([KILLED], size=2, first=first) == Verdict("finished", directory="run", main=first.main)
    assert verdict([], size=4) == Verdict("finished")  # a machine without the first process


@pytest.mark.parametrize(
    ("asked", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 143)]
)
def test_a_signal_stops_the_run_with_its_own_code(asked: int, code: int):
    first = Outcome(error="interrupted", code=code)
    ends = [End(0, code, 5.0, "interrupted", code)]
    assert verdict(ends, size=2, first=first, asked=asked) == Verdict(
        "stopped", "interrupted", code, told=True
    )
    # It came before the process could say anything.
    assert verdict([End(0, -asked, 5.0)], size=2, asked=asked) == Verdict("stopped", "interrupted", code)


def test_what_dies_after_a_signal_has_still_died():
    assert verdict([KILLED, ALONE], size=2, asked=signal.SIGTERM).kind == "died"


def test_a_second_ctrl_c_kills_and_that_is_no_death():
    ends = [End(0, -9, 5.0), End(1, -9, 5.0)]
    found = verdict(ends, size=2, asked=signal.SIGINT, at_once=True)
    assert found == Verdict("stopped", "interrupted", 130)


def test_another_machine_is_the_reason_where_nothing_died_here():
    assert verdict([HELD], size=4, reason="machine 2 of 2 sent no heartbeat").error == (
        "machine 2 of 2 sent no heartbeat"
    )
    assert verdict([ALONE], size=2).error == ALONE.error
    assert verdict([HELD], size=2).kind == "lost"


def test_of_all_machines_the_death_counts_then_the_stop_then_the_loss():
    lost, died = Verdict("lost", "gone", 1), Verdict("died", "killed", 1)
    stopped, good = Verdict("stopped", "interrupted", 143), Verdict("finished", directory="run")
    assert of_all(lost, [stopped, died]) is died
    assert of_all(lost, [good, stopped]) is stopped
    assert of_all(good, [lost]) is lost
    assert of_all(Verdict("finished"), [good]) is good
    assert of_all(good, []) is good


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory whose process is gone."""
    made = Run.create("x", {}, directory=str(tmp_path / "run"))
    made.start({}, [], {})
    made.release()
    return made.path


def state(run: Path) -> tuple[str, str | None]:
    status = json.loads((run / "status.json").read_text())
    return status["state"], status.get("error")


def test_a_death_is_written_into_the_run_directory_with_its_traceback(run: Path):
    died = Verdict("died", "process 2 of 2 (rank 1): odd", 6, trace="Traceback\n  odd\x1b[2J")
    with pytest.raises(RunFailed, match=r"^process 2 of 2 \(rank 1\): odd; .*embedrun resume") as caught:
        settle(died, run)
    assert caught.value.exit_code == 6
    assert caught.value.__notes__ == [died.trace]
    assert state(run) == ("failed", died.error)
    log = (run / "run.log").read_text()
    assert "ERROR process 2 of 2 (rank 1): odd\nTraceback\n  odd\ufffd[2J\n" in log


def test_what_the_first_process_has_written_stays(run: Path):
    with pytest.raises(RunFailed, match=r"^loss is nan$"):
        settle(Verdict("died", "loss is nan", 4, told=True), run)
    assert state(run) == ("running", None)


def test_a_stop_that_killed_is_an_interruption(run: Path):
    with pytest.raises(KeyboardInterrupt) as caught:
        settle(Verdict("stopped", "interrupted", 130), run)
    assert type(caught.value) is KeyboardInterrupt
    assert state(run) == ("interrupted", "interrupted")
    with pytest.raises(Terminated):
        settle(Verdict("stopped", "interrupted", 143, told=True), None)


def test_a_run_that_somebody_goes_on_with_is_left_alone(run: Path):
    with Run.claim(run)._lock, pytest.raises(RunFailed):
        settle(Verdict("died", "killed", 1), run)
    assert state(run) == ("running", None)


def test_the_end_of_a_good_run_is_its_outcome():
    found = Verdict("finished", directory="run", main={"name": "x", "value": 1.0})
    assert settle(found, None) == Outcome("run", {"name": "x", "value": 1.0})


NO_RUN = Path("no-run-yet")


class Store:
    """A key-value store that can go away."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.gone = False

    def _reach(self) -> dict[str, bytes]:
        if self.gone:
            raise RuntimeError("Broken pipe\nmore")
        return self.held

    def set(self, key: str, value: str) -> None:
        self._reach()[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self._reach()[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self._reach() for key in keys)


class Clock:
    """Seconds that pass when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.then: Callable[[float], None] = lambda now: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then(self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(end.time, "sleep", found.sleep)
    return found


@pytest.fixture
def two(clock: Clock) -> tuple[Store, Machines, Machines]:
    store = Store()
    return store, Machines(store, 0, 2, NO_RUN, clock), Machines(store, 1, 2, NO_RUN, clock)


def test_machines_that_beat_are_not_lost(two, clock: Clock):
    _, one, other = two
    for _ in range(60):
        assert (one.look(), other.look()) == (None, None)
        clock.sleep(2.0)


def test_a_machine_that_gives_no_sign_of_life_is_lost_within_half_a_minute(two, clock: Clock):
    _, one, other = two
    other.look()
    one.look()
    last = clock.now
    while one.look() is None:
        clock.sleep(0.1)
    assert clock.now - last < 25
    assert one.reason == "machine 2 of 2 sent no heartbeat"


def test_a_machine_whose_processes_died_says_why(two, clock: Clock):
    _, one, other = two
    died = Verdict("died", "process 3 of 4 (rank 2) was killed by signal 9 (SIGKILL)", 1)
    lost = Verdict("lost", died.error, 1)

    def end_too(now: float) -> None:
        if one.look():
            clock.then = lambda now: None
            assert one.end(lost) == [died]

    clock.then = end_too
    assert other.end(died) == [lost]
    assert one.reason == died.error


def test_a_machine_that_died_waits_for_no_answer_for_long(two, clock: Clock):
    _, one, other = two
    clock.then = lambda now: one.look()
    started = clock.now
    (word,) = other.end(Verdict("died", "killed", 1))
    assert word.kind == "lost"
    assert clock.now - started < 45


def test_the_machine_with_the_store_may_go(two, clock: Clock):
    store, one, _ = two
    store.gone = True
    assert one.look() == "the machine at gpu.rendezvous cannot be reached any more (Broken pipe)"
    (word,) = one.end(Verdict("finished"))
    assert (word.kind, word.error) == ("lost", one.reason)


def test_a_machine_that_is_done_waits_for_the_one_that_still_scores(two, clock: Clock):
    _, one, other = two
    good = Verdict("finished", directory="run", main={"name": "x", "value": 1.0})
    hours: list[float] = []

    def score(now: float) -> None:
        one.look()
        if now > 100 + 3 * 3600 and not hours:
            hours.append(now)
            assert one.end(good) == [Verdict("finished")]

    clock.then = score
    assert other.end(Verdict("finished")) == [good]
    assert hours
    assert one.look() is None


def test_one_that_is_done_may_go_and_take_the_store_with_it(two, clock: Clock):
    store, one, _ = two
    store.held["embedrun/word/1"] = _json(Verdict("finished"))
    one.look()
    store.gone = True
    clock.now += 1000
    assert one.look() is None  # nothing is awaited from it


def test_a_stop_elsewhere_leaves_time_to_finish_the_step_and_save(two, clock: Clock):
    store, one, _ = two
    store.held["embedrun/word/1"] = _json(Verdict("stopped", "interrupted", 143))
    started = clock.now
    while one.look() is None:
        clock.sleep(1.0)
    assert 600 < clock.now - started < 610
    assert one.reason == "machine 2 of 2 has stopped, and this one did not stop with it"


def test_one_machine_alone_has_nobody_to_wait_for(clock: Clock):
    store = Store()
    one = Machines(store, 0, 1, NO_RUN, clock)
    assert one.look() is None
    assert one.end(Verdict("finished")) == []
    assert store.held == {}


def _json(word: Verdict) -> bytes:
    return json.dumps(asdict(word)).encode()


def test_a_machine_without_process_0_says_once_which_run_it_has_joined(clock: Clock, tmp_path, capsys):
    store, told = Store(), tmp_path / "run"
    first, second = (Machines(store, number, 2, told, clock) for number in (0, 1))
    for path in (None, "outputs/quickstart/a-run", "outputs/quickstart/a-run"):
        if path is not None:
            told.write_text(path)
        clock.sleep(3)
        first.look()
        second.look()
    line = "joined as machine 2 of 2: outputs/quickstart/a-run; machine 1 prints how it goes\n"
    assert capsys.readouterr() == ("", line)
