import json
from collections.abc import Callable
from dataclasses import asdict

import pytest

from embedrun.training.workers import end
from embedrun.training.workers.end import Machines, Verdict


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
    return store, Machines(store, 0, 2, clock), Machines(store, 1, 2, clock)


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
    assert one.reason == "machine 2 of 2 gave no sign of life"


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
    one = Machines(store, 0, 1, clock)
    assert one.look() is None
    assert one.end(Verdict("finished")) == []
    assert store.held == {}


def _json(word: Verdict) -> bytes:
    return json.dumps(asdict(word)).encode()
