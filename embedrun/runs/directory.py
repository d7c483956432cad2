"""The run directory: made once, never reused, locked; its status, log, results and environment."""

import hashlib
import json
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedrun.config.decides import decisive
from embedrun.console import clean, masked
from embedrun.errors import IN_USE, ConfigError, DataError, EmbedrunError, is_full
from embedrun.files import Plain, is_alive, open_lock, take, to_json, write_atomically
from embedrun.runs.reading import BEGAN, CHOICES, PARTS, RunFiles


@dataclass(frozen=True)
class Outcome:
    """How a job ended; `error` is None where it finished, `directory` where no run directory was made.

    `main` has `name` and `value` of the main score.
    """

    directory: str | None = None
    main: Plain | None = None
    error: str | None = None
    code: int = 0


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CHECKPOINTS = "checkpoints"
_LOOKS, _PAUSE = 5, 0.02  # attempts to lock a directory, and seconds between: `is_alive` locks it briefly
# Written before config.yaml.
_FIRST = ("run.log", "status.json", "overrides.yaml", CHOICES, "environment.json")


def check_name(name: str) -> str:
    """The run name, if it can be a folder below `outputs/`."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "name: expected up to 100 letters, digits, '.', '_' or '-', starting with a letter or digit, "
            f"got {name!r}"
        )
    return name


def config_hash(config: Plain) -> str:
    """SHA-256, in hex, of the options that decide the result of a run."""
    return hashlib.sha256(json.dumps(decisive(config), sort_keys=True).encode()).hexdigest()


class Run:
    """One run directory, locked; it must exist, so use `Run.create` or `Run.claim`.

    `known` is the content of its `status.json`. One that another process is writing into is refused, exit 8.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        self._handler: logging.Handler | None = None
        # The lock ends with the process, however that ends, so that none can be left behind.
        with _refused(f"{path}: cannot be written into", "make it writable, or resume a copy of it"):
            self._lock = open_lock(path / ".lock")
        if not self._locked():
            self._lock.close()
            raise EmbedrunError(f"{path}: in use by another process; wait for it to finish", exit_code=IN_USE)

    @classmethod
    def create(cls, name: str, config: Plain, *, directory: str | None = None, again: bool = False) -> "Run":
        """Make the directory of a new run: `outputs/<name>/<date>_<time>-<hash>`.

        The hash is the first 6 hex digits of the config hash. A `directory` is used verbatim instead; it must
        not exist, unless a run was killed in it before it had begun and `again` is set.
        """
        if directory is None:
            parent = Path("outputs") / check_name(name)
            stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
            return cls(new_folder(parent, f"{stamp}-{config_hash(config)[:6]}"))
        path = Path(directory)
        if again and is_empty(path):
            return cls(path)
        if os.path.lexists(path):
            advice = "it holds nothing yet; delete it" if holds_nothing(path) else "it is never reused"
            raise ConfigError(f"hydra.run.dir: {path} exists; {advice}, or name another")
        with _refused(f"hydra.run.dir: cannot make {directory!r}", "name another"):
            path.mkdir(parents=True)
        return cls(path)

    @classmethod
    def claim(cls, path: Path) -> "Run":
        """The directory of an unfinished run, to resume; nothing in it is changed."""
        run = cls(path)
        try:
            run.known = dict(RunFiles(path).status)
            if not run.known:
                raise DataError(f"{path / 'status.json'}: cannot be read (it is missing, or empty)")
            if run.known.get("state") == "finished":  # by another process, since it was found unfinished
                scores = path / "results.json"
                problem = f"{path}: has finished meanwhile; its scores are in {scores}"
                raise EmbedrunError(problem, exit_code=IN_USE)
        except EmbedrunError:
            run.release()
            raise
        return run

    def release(self) -> None:
        """Unlock the directory."""
        self._lock.close()

    def start(
        self, config: Plain, overrides: list[str], environment: Plain, choices: Plain | None = None
    ) -> None:
        """Mark the run as running, and write what it begins with; `config.yaml` is last: all is there.

        `choices` are the presets behind the configuration, by group.
        """
        self._clear_remains()  # of one that was killed before it had begun
        self.status(state="running", started=now(), attempts=1, config_sha256=config_hash(config))
        (self.path / PARTS).mkdir(exist_ok=True)
        write_atomically(self.path / BEGAN, to_json(dict(config)))
        write_atomically(self.path / "overrides.yaml", to_yaml(overrides))
        write_atomically(self.path / CHOICES, to_yaml(dict(choices or {})))
        write_atomically(self.path / "environment.json", to_json(environment))
        reads = ", ".join(environment.get("data", {}))  # rows and models, as the run that a `run:NAME` was
        logging.getLogger("embedrun").info("reads %s", reads)
        write_atomically(self.path / "config.yaml", to_yaml({"schema": 1, **config}))

    def go_on(self) -> None:
        """Mark a claimed run as resumed, and remove the partly written files of a kill."""
        self._clear_remains()
        attempts = int(self.known.get("attempts") or 1) + 1
        self.status(state="running", resumed=now(), attempts=attempts, ended=None, error=None)

    def _clear_remains(self) -> None:
        for path in (*self.path.glob(".*.*"), *self.path.glob("plots/.*.*")):
            if _is_partly_written(path.name):
                path.unlink()

    def status(self, **changes: object) -> None:
        """Change fields of `status.json`; every change also moves the heartbeat."""
        self.known |= {**changes, "heartbeat": now(), "pid": os.getpid()}
        write_atomically(self.path / "status.json", to_json(self.known))

    def end(self, state: str, error: str | None = None) -> None:
        """Mark the run as `finished`, `interrupted` or `failed`, and unlock the directory."""
        try:
            if state == "finished":
                shutil.rmtree(self.path / PARTS, ignore_errors=True)
            quoted = None if error is None else clean(masked(error))  # of a file's name or an address
            self.status(state=state, ended=now(), error=quoted)
        finally:
            if self._handler is not None:
                logging.getLogger("embedrun").removeHandler(self._handler)
                self._handler.close()
                self._handler = None
            self.release()

    def _locked(self) -> bool:
        for _ in range(_LOOKS):
            if take(self._lock):
                return True
            time.sleep(_PAUSE)
        return False

    def open_log(self) -> logging.Logger:
        """The run's logger, which writes to `run.log`, without control characters."""
        logger = logging.getLogger("embedrun")
        logger.disabled = False  # Hydra's logging set-up disables every logger that it does not know
        logger.setLevel(logging.INFO)
        logger.propagate = False
        self._handler = _LogFile(self.path / "run.log", encoding="utf-8")
        self._handler.setFormatter(_CleanFormatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(self._handler)
        return logger

    def results(self, results: Plain) -> None:
        """Write `results.json`: `main`, `scores`, `intervals`, `baseline`, `notes`, `counts`, `seconds`."""
        write_atomically(self.path / "results.json", to_json({"schema": 1, **results}))


@contextmanager
def _refused(problem: str, next_step: str) -> Iterator[None]:
    """Refuse a place that the system does not let us write to; a full disk is left to the caller."""
    try:
        yield
    except (OSError, ValueError) as fault:
        if isinstance(fault, OSError) and is_full(fault):
            raise
        raise ConfigError(f"{problem} ({fault}); {next_step}") from None


def new_folder(parent: Path, name: str) -> Path:
    """Make a folder of this name, with `.2`, ... appended where another started in this second."""
    path, attempt = parent / name, 1
    with _refused(f"outputs: cannot make a directory below {str(parent)!r}", "go to another folder"):
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                path.mkdir()
                return path
            except FileExistsError:
                attempt += 1
                path = parent / f"{name}.{attempt}"


def is_empty(path: Path) -> bool:
    """Whether a folder holds nothing but what a run writes before it begins."""
    return path.is_dir() and all(
        child.name in _FIRST or child.name.startswith(".") for child in path.iterdir()
    )


def holds_nothing(path: Path) -> bool:
    """Whether a folder can be deleted without loss: its run ended before it had begun."""
    names = {child.name for child in path.iterdir()} if path.is_dir() else {""}
    names = {name for name in names if not _is_partly_written(name)}
    return names <= {*_FIRST, ".lock", PARTS} and is_alive(path) is not True


def _is_partly_written(name: str) -> bool:
    """Whether a kill left a file of this name, which write_atomically gives: `.NAME.PROCESS`."""
    return name.startswith(".") and name.rpartition(".")[2].isdecimal()


class _LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of logging
        """Do nothing: the run itself reports a full disk, once."""


class _CleanFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return clean(masked(super().format(record)))


def to_yaml(data: object) -> str:
    """YAML with keys in the given order."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def now() -> str:
    """The time as the files of a run record it: ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


_PACKAGES = ("embedrun", "torch", "transformers", "tokenizers", "datasets", "peft", "hydra-core", "omegaconf",
             "numpy", "scipy", "scikit-learn", "numba", "mteb", "safetensors", "pyarrow",
             "wandb")  # fmt: skip
# Only these variables are recorded: anything else may hold a secret.
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG",
              "HF_HUB_OFFLINE", "SLURM_JOB_ID")  # fmt: skip


def describe(data: Mapping[str, str]) -> Plain:
    """The content of `environment.json`; `data` holds the fingerprint of each split, model and code."""
    import torch

    gpu = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "command": clean(masked(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": {"count": os.cpu_count(), "threads": torch.get_num_threads(), "type": processor()},
        "gpu": gpu,
        "cuda": torch.version.cuda,
        "versions": {name: _version(name) for name in _PACKAGES},
        "code": _code(),
        "variables": {name: clean(os.environ[name]) for name in _VARIABLES if name in os.environ},
        "data": dict(data),
    }


def processor() -> str:
    """The name of the processor, such as `AMD EPYC Processor`; its architecture where Linux does not tell."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, for who lists runs

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _code() -> Plain | None:
    root = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()

    if not (root / ".git").exists():
        return None
    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
