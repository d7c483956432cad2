"""The folder in which the processes of a launch tell each other; what a killed launch has left is removed."""

import fcntl
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from embedrun.commands.launch_work import alive
from embedrun.files import is_alive, open_lock, refuse_links

JOBS = ".jobs"


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """`.jobs` in a folder of the launch's own, as a full path; a lock in it says that the launch is there.

    Args:
        folder: is made if need be.

    Raises:
        ConfigError: if there is a link in its place, whose target is nobody's to remove.
    """
    place, fresh = folder.resolve() / JOBS, folder.resolve() / f"{JOBS}.new"
    refuse_links((place, fresh))
    for old in (place, fresh):
        shutil.rmtree(old, ignore_errors=True)
    fresh.mkdir(parents=True)
    with open_lock(fresh / ".lock") as lock:
        with suppress(OSError):  # a file system that knows no locks: nobody removes anything there
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fresh.rename(place)  # never seen without its lock
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


def tidy(places: Iterable[Path]) -> None:
    """Remove those of such folders whose launch was killed, and the folder around each if it is empty then.

    Args:
        places: the `.jobs` of whatever launches.
    """
    for place in places:
        # The jobs of a killed launch may go on, those of a cluster on other machines: they look in here.
        if is_alive(place) is False and not any(alive(place)) and not (place / "hydra/.submitit").exists():
            shutil.rmtree(place, ignore_errors=True)
            with suppress(OSError):
                place.parent.rmdir()
