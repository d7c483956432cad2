import pytest

from embedrun.experiment import training as module
from embedrun.experiment.training import Clock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: time[0])
    return time


def test_seconds_are_those_of_all_attempts(now):
    clock = Clock({"train": 10.0, "load": 1.5})
    with clock.timed("train"):
        now[0] += 2.25
        assert clock.read() == {"train": 12.25, "load": 1.5}
    now[0] += 50
    with clock.timed("evaluate"):
        now[0] += 1
    assert clock.read() == {"train": 12.25, "load": 1.5, "evaluate": 1.0}


def test_work_that_fails_took_its_time_too(now):
    clock = Clock({})

    def fail() -> None:
        with clock.timed("train"):
            now[0] += 3
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - raised above
        fail()
    assert clock.read() == {"train": 3.0}
