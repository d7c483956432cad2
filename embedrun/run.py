"""The run directory: made once, never reused, never overwritten."""

import fcntl
import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedrun.console import clean
from embedrun.errors import IN_USE, ConfigError, DataError, EmbedrunError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# What cannot change a result: where data lies, what is logged, what the run is called.
_NOT_HASHED = ("data_dir", "tracking", "name")


def check_name(name: str) -> str:
    """The run name, if it can be a folder below `outputs/`.

    Raises:
        ConfigError: for anything that could leave that folder.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "name: expected up to 100 letters, digits, '.', '_' or '-', starting with a letter or digit, "
            f"got {name!r}"
        )
    return name


def config_hash(config: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of what decides the result of a run."""
    kept = {key: value for key, value in config.items() if key not in _NOT_HASHED}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new, never a part."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def to_json(data: Any) -> str:
    """JSON as every file of a run directory holds it."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


class Run:
    """One run directory.

    Args:
        path: the directory, which must exist; use `Run.create` or `Run.reopen`.

    Raises:
        EmbedrunError: exit 8, if another process writes into it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._status: dict[str, Any] = {}
        self._handler: logging.Handler | None = None
        # The lock goes with the process, however that ends, so that none can be left behind.
        self._lock = (path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise EmbedrunError(
                f"{path}: another process is writing into it; wait for its end", exit_code=IN_USE
            ) from None
        except OSError:
            pass  # a file system that knows no locks

    @classmethod
    def create(cls, name: str, config: Mapping[str, Any], *, directory: str | None = None) -> "Run":
        """Make the directory of a new run.

        Args:
            name: of the experiment; the directory is `outputs/<name>/<date>_<time>-<hash>`, with the first
                6 hex digits of the config hash.
            config: the resolved configuration.
            directory: used verbatim instead; must not exist.

        Raises:
            ConfigError: if `directory` exists or cannot be made, or the name could leave `outputs/`.
        """
        if directory is not None:
            path = Path(directory)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.mkdir()
            except FileExistsError as fault:  # of the directory, or of a file where a parent should be
                raise ConfigError(
                    f"hydra.run.dir: {fault.filename} exists; a run directory is never reused, name another"
                ) from None
            except (PermissionError, NotADirectoryError, ValueError) as fault:
                raise ConfigError(
                    f"hydra.run.dir: cannot make {directory!r} ({fault}); name another"
                ) from None
            return cls(path)
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        parent = Path("outputs") / check_name(name)
        parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 10_000):
            again = f".{attempt}" if attempt > 1 else ""
            path = parent / f"{stamp}-{config_hash(config)[:6]}{again}"
            try:
                path.mkdir()
            except FileExistsError:
                continue  # the same configuration started within this second
            return cls(path)
        raise ConfigError(f"name: no free directory below {parent}")

    @classmethod
    def reopen(cls, path: Path) -> "Run":
        """The run directory of a run that did not finish, to go on with.

        Raises:
            EmbedrunError: exit 8, if another process writes into it, or has finished it.
            DataError: if its `status.json` cannot be read.
        """
        run = cls(path)
        try:
            run._status = dict(json.loads((path / "status.json").read_text(encoding="utf-8")))
        except (OSError, ValueError) as fault:
            raise DataError(f"{path}: its status.json cannot be read ({fault})") from fault
        if run._status.get("state") == "finished":  # by another process, since it was looked at
            run._lock.close()
            raise EmbedrunError(
                f"{path}: has finished meanwhile; its scores are in {path / 'results.json'}", exit_code=IN_USE
            )
        run.status(state="running", resumed=_now(), ended=None, error=None)
        return run

    def start(self, config: Mapping[str, Any], overrides: list[str], environment: Mapping[str, Any]) -> None:
        """Write what the run is made of, and mark it as running."""
        write_atomically(self.path / "config.yaml", to_yaml({"schema": 1, **config}))
        write_atomically(self.path / "overrides.yaml", to_yaml(overrides))
        write_atomically(self.path / "environment.json", to_json(environment))
        self.status(state="running", started=_now())

    def status(self, **changes: Any) -> None:
        """Change fields of `status.json`; every change also moves the heartbeat."""
        self._status |= {**changes, "heartbeat": _now(), "pid": os.getpid()}
        write_atomically(self.path / "status.json", to_json(self._status))

    def end(self, state: str, error: str | None = None) -> None:
        """Mark the run as `finished`, `interrupted` or `failed`."""
        self.status(state=state, ended=_now(), error=error)
        if self._handler is not None:
            logging.getLogger("embedrun").removeHandler(self._handler)
            self._handler.close()
            self._handler = None
        self._lock.close()

    def open_log(self) -> logging.Logger:
        """The run's logger: everything goes to `run.log`, without control characters."""
        logger = logging.getLogger("embedrun")
        logger.disabled = False  # Hydra's logging set-up disables every logger that it does not know
        logger.setLevel(logging.INFO)
        logger.propagate = False
        self._handler = logging.FileHandler(self.path / "run.log", encoding="utf-8")
        self._handler.setFormatter(_CleanFormatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(self._handler)
        return logger

    def results(self, results: Mapping[str, Any]) -> None:
        """Write `results.json`.

        Args:
            results: `main`, `scores`, `intervals`, `baseline`, `notes`, `counts` and `seconds`.
        """
        write_atomically(self.path / "results.json", to_json({"schema": 1, **results}))


class _CleanFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


def to_yaml(data: Any) -> str:
    """YAML with keys in their own order."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
