"""Where the runs and the summary of a multirun go, and whether there is room for them."""

import fcntl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from embedrun.commands import sweep_summary
from embedrun.commands.launch_scratch import JOBS, tidy
from embedrun.config.compose import Composed, Request
from embedrun.errors import IN_USE, ConfigError, EmbedrunError
from embedrun.files import open_lock
from embedrun.runs.directory import config_hash

_LOCK = ".multirun.lock"  # no name that a run directory has: what looks like one may be removed


class SweepPlace:
    """The places of one multirun.

    Args:
        request: the command line.
        jobs: composed.
        leaves_runs: whether the jobs leave run directories.

    Attributes:
        hashes: of the configurations, by which the multirun is known again.
    """

    def __init__(self, request: Request, jobs: Sequence[Composed], *, leaves_runs: bool) -> None:
        self._request, self._jobs, self._leaves_runs = request, jobs, leaves_runs
        self.hashes = [config_hash(job.config) for job in jobs]
        self._parents = list(dict.fromkeys(job.parent for job in jobs if job.parent is not None))

    def check(self) -> None:
        """Refuse run directories that are taken or shared.

        Raises:
            ConfigError: naming each.
        """
        named = [job.directory for job in self._jobs if job.directory is not None]
        places = [str(Path(place).resolve()) for place in named]
        problems = [
            f"hydra.sweep.subdir: several jobs would share {place}; use ${{hydra:job.num}} in it"
            for place in {place for place in places if places.count(place) > 1}
        ]
        if not problems and not all(goes_on(job.config) for job in self._jobs):
            problems = [
                f"hydra.sweep.dir: {place} exists{self._why_not(place)}; name one that does not"
                for place in self._parents or named
                if Path(place).exists() and not self._is_own(Path(place))
            ]
        if problems:
            raise ConfigError(problems)

    @contextmanager
    def held(self) -> Iterator[Path]:
        """The folder where the summary goes; inside, no other multirun writes into it.

        Raises:
            ConfigError: if the file of the lock is a link.
            EmbedrunError: exit 8, if another one does; nothing in it is changed.
        """
        folder = self._folder()
        folder.mkdir(parents=True, exist_ok=True)
        with open_lock(folder / _LOCK) as lock:  # goes with the process, however that ends
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EmbedrunError(
                    f"{folder}: another multirun is writing into it; wait for its end", exit_code=IN_USE
                ) from None
            except OSError:
                pass  # a file system that knows no locks
            yield folder

    def _folder(self) -> Path:
        """The directory that the user named, else one of its own."""
        if self._parents:
            return Path(self._parents[0])
        names = {str(job.config.get("name")) for job in self._jobs}
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        whole = sha256(" ".join(self.hashes).encode()).hexdigest()[:6]
        parent = Path("outputs", names.pop() if len(names) == 1 else "", "sweeps")
        tidy(parent.glob(f"*/{JOBS}"))
        return new_folder(parent, f"{stamp}-{whole}")

    def _is_own(self, place: Path) -> bool:
        """Whether what exists there was left by these very jobs, or by none that had begun."""
        if place.is_dir() and [one.name for one in place.iterdir()] == [_LOCK]:
            return True
        if self._request.again or not self._leaves_runs:
            return False
        if self._parents:
            return sweep_summary.is_of(place, self._request.command, self.hashes)
        return True  # looked at when the job is

    def _why_not(self, place: str) -> str:
        if self._request.again and self._leaves_runs:
            return ", and with --again every job is to begin anew"
        return " and is not of these jobs" if (Path(place) / "sweep.json").is_file() else ""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the time of the jobs, where every machine sees it."""
    outputs = Path("outputs")
    outputs.mkdir(exist_ok=True)
    tidy(outputs.glob(f".jobs-*/{JOBS}"))
    with tempfile.TemporaryDirectory(prefix=".jobs-", dir=outputs) as folder:
        yield Path(folder)
    with suppress(OSError):  # there are runs in it
        outputs.rmdir()


def new_folder(parent: Path, name: str) -> Path:
    """A folder that was not there.

    Args:
        parent: is made if need be.
        name: of the folder, with a number behind it if there is one of this name.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, 10_000):
        path = parent / (name if attempt == 1 else f"{name}.{attempt}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise ConfigError(f"no free folder below {parent}")


def goes_on(config: Mapping[str, Any]) -> bool:
    """Whether the job itself takes up a run that it finds in its directory."""
    training = config.get("training")
    return isinstance(training, dict) and training.get("resume") == "auto"
