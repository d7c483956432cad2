"""Runs that no accident happened to, and a table of those that had some."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import forked
import pytest
import same_run
from small_mixes import Mix, mixes

from embedrun.console import aligned

_HEADING = ("trial", "mix", "kills", "went on from step", "identical")
_rows: list[tuple[str, ...]] = []

NAMES = ("AnglE", "ArcCSE", "RAOE")


@dataclass(frozen=True)
class Undisturbed:
    """A finished run.

    Args:
        mix: that it trained.
        arguments: that started it.
        folder: holds its directory `run`.
        content: what another run of the mix is to come to.
    """

    mix: Mix
    arguments: tuple[str, ...]
    folder: Path
    content: dict[str, object]


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Mix]:
    """The mixes by name, with their data on the disk and all that they import in memory."""
    forked.warm_up()
    return mixes(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session", params=NAMES)
def undisturbed(
    request: pytest.FixtureRequest, known: dict[str, Mix], tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    """A run of each mix."""
    mix, folder = known[request.param], tmp_path_factory.mktemp(request.param)
    ended = forked.run(folder, *mix.training())
    assert ended.code == 0, ended.said
    return Undisturbed(mix, mix.training(), folder, same_run.content(folder / "run"))


@pytest.fixture(scope="session")
def report() -> Callable[..., None]:
    """Add a line to the table at the end: trial, mix, kills, steps, whether all was identical."""

    def add(trial: str, mix: str, kills: int, steps: list[int], identical: bool) -> None:
        from_steps = " ".join(map(str, steps))
        _rows.append((trial, mix, str(kills), from_steps, "yes" if identical else "NO"))

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What has been tried."""
    if _rows:
        terminalreporter.write_sep("=", "runs that were killed")
        terminalreporter.write_line(aligned([_HEADING, *_rows], right=(2,)))
