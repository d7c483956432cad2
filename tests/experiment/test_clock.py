"""A clock that is set back or forward while a run trains, or between two starts."""

import json
import signal
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import accidents
import pytest
import same_run

from embedrun.files import is_alive
from embedrun.runs import listing
from embedrun.runs.directory import Run

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")
BACK, FORWARD = timedelta(hours=-1), timedelta(days=1)


class Clock:
    """That of the machine, as every part of a run reads it; the monotonic one goes on.

    Attributes:
        off: by how much it has been set.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.off = timedelta(0)
        clock, true, true_ns = self, time.time, time.time_ns

        class Set(datetime):
            @classmethod
            def now(cls, tz=None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + clock.off

        for module in ("runs.directory", "commands.runs", "launch.sweep", "commands.reproduce"):
            patch.setattr(f"embedrun.{module}.datetime", Set)
        patch.setattr(time, "time", lambda: true() + clock.off.total_seconds())
        patch.setattr(time, "time_ns", lambda: true_ns() + int(clock.off.total_seconds() * 1e9))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def shown(folder: str, now: datetime) -> str:
    """What `embedrun runs` prints, read at this time."""
    return listing.table(listing.find([Path(folder)]), now, None, 200)


def differences(run: Path, tiny: Any) -> list[str]:
    """Names of files of other bytes, but for plots, drawn there, and checkpoints, one more after a stop."""
    found = same_run.differences(run, same_run.content(tiny.path))
    return [name for name in found if not name.startswith(("plots/", "checkpoints/"))]


@pytest.mark.parametrize("by", [BACK, FORWARD])
def test_a_clock_that_is_set_while_a_run_trains_changes_no_byte_and_no_duration(
    embedrun, options, tiny, clock, by
):
    seen = []

    def put() -> None:
        clock.off = by
        seen.append(is_alive(Path("run")))
        seen.append(shown(".", datetime.now(UTC) + by))

    began = time.monotonic()
    with accidents.at_step(2, put):
        ended = embedrun("train", *options, "hydra.run.dir=run")
    took = time.monotonic() - began
    assert ended.code == 0, ended.err
    alive, line = seen
    assert alive is True
    assert "running, step 1 of 2" in line
    assert "killed" not in line
    run = Path("run")
    assert differences(run, tiny) == []
    status, results = (same_run.read(run / name) for name in ("status.json", "results.json"))
    off = datetime.fromisoformat(status["ended"]) - datetime.fromisoformat(status["started"])
    assert abs(off - by) < timedelta(minutes=5)  # the clock as it was
    assert all(0 <= one <= took for one in (*results["seconds"].values(), *status["seconds"].values()))
    speed = [json.loads(row) for row in (run / "speed.jsonl").read_text().splitlines()]
    assert all(value >= 0 for row in speed for key, value in row.items() if key != "memory" and value)
    # A run that has ended is dead whatever its times say, and its page stands.
    assert is_alive(run) is False
    assert "finished" in shown(".", datetime.now(UTC) + by)
    assert embedrun("report", "run").code == 0


def test_a_run_that_goes_on_after_the_clock_was_set_back_ends_with_the_same_bytes(
    embedrun, options, tiny, clock
):
    with accidents.at_step(1, partial(accidents.signal_self, signal.SIGTERM)):
        assert embedrun("train", *options, "hydra.run.dir=run").code == 143
    clock.off = BACK
    ended = embedrun("resume", "run")
    assert ended.code == 0, ended.err
    assert same_run.resumed(Path("run")) == [1]
    assert differences(Path("run"), tiny) == []


def test_runs_begun_before_others_that_are_there_share_no_directory_with_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = []
    for hours in (0, 1, 0, -24):  # the clock shows the same second twice
        moment = datetime(2026, 3, 29, 12) + timedelta(hours=hours)

        class At(datetime):
            @classmethod
            def now(cls, tz=None, moment: datetime = moment) -> datetime:  # type: ignore[override]
                return moment if tz is None else moment.replace(tzinfo=tz)

        monkeypatch.setattr("embedrun.runs.directory.datetime", At)
        run = Run.create("toy", {"name": "toy", "seed": 1})
        run.start({"name": "toy", "seed": 1}, [], {})
        made.append(run)
    names = [run.path.name.rpartition("-")[0] for run in made]
    assert names == [
        "2026-03-29_12-00-00",
        "2026-03-29_13-00-00",
        "2026-03-29_12-00-00",
        "2026-03-28_12-00-00",
    ]
    assert made[2].path.name == f"{made[0].path.name}.2"
    # All four are alive, however old or early their heartbeats are.
    told = shown("outputs", datetime(2026, 3, 29, 12, tzinfo=UTC))
    assert told.count("running") == 4
    for run in made:
        run.end("finished")
    assert shown("outputs", datetime(2026, 3, 29, 12, tzinfo=UTC)).count("finished") == 4
