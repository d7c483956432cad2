"""Runs that no accident happened to."""

from dataclasses import dataclass
from pathlib import Path

import forked
import pytest
import same_run
from small_mixes import Mix, mixes

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
