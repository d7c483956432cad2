"""Where metrics go: the run's own files, independent of the clock, and mirrors in W&B and TensorBoard."""

import contextlib
import json
import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Self

from embedrun.config import TrackingConfig
from embedrun.config.options import WandbConfig
from embedrun.console import masked, say
from embedrun.errors import NO_CHECKPOINT, EmbedrunError, RunFailed, install_extra
from embedrun.files import Plain

_METRICS, _SPEED = "metrics.jsonl", "speed.jsonl"
_log = logging.getLogger("embedrun")
_MOST_WAITING = 20_000  # values
_UNFINISHED_SECONDS = 2.0  # whoever sent a signal may soon send SIGKILL
_LONGEST_REASON = 300  # characters
_NO_KEY = "no API key; set WANDB_API_KEY, or run `wandb login`, or choose tracking.wandb.mode=offline"


class Tracker:
    """Writes `metrics.jsonl` and `speed.jsonl` of a run directory, and tells its mirrors.

    `metrics.jsonl` holds nothing that depends on the clock, so that two runs of one configuration and seed
    give the same bytes. As a context manager it is closed at the end of the block, as not finished if that
    raises. The mirrors get every value; they cannot fail a call, nor delay any but `close`.
    """

    def __init__(self, folder: Path, mirrors: "Sequence[Mirror]" = ()) -> None:
        self._metrics = (folder / _METRICS).open("a", encoding="utf-8")  # both closed by `close`
        self._speed = (folder / _SPEED).open("a", encoding="utf-8")
        self._mirrors = mirrors

    def metric(self, *, step: int, epoch: float, split: str, name: str, value: float) -> None:
        """One measured value, `split` being `train`, `dev` or `test`; an undefined one is written as null."""
        row = {"step": step, "epoch": round(epoch, 6), "split": split, "name": name}
        _write(self._metrics, {**row, "value": value if math.isfinite(value) else None})
        for mirror in self._mirrors:
            mirror.add(step=step, name=f"{split}/{name}", value=value)

    def speed(
        self,
        *,
        step: int,
        time: float,
        rows_per_second: float,
        tokens_per_second: float,
        host_ms: float,
        memory: int | None,
        parts: Plain | None = None,
    ) -> None:
        """How fast training went since the last call; `time` in seconds since the start, memory in bytes.

        `host_ms` is the processor's own time of a step, without waiting for the device, in milliseconds;
        `parts` are the rates of the parts of a mixture.
        """
        row = {
            "time": round(time, 3),
            "rows_per_second": round(rows_per_second, 2),
            "tokens_per_second": round(tokens_per_second, 1),
            "host_ms": round(host_ms, 2),
            "memory": memory,
        }
        _write(self._speed, {"step": step, **row, **({"parts": parts} if parts else {})})
        for mirror in self._mirrors:
            for name, value in row.items():
                if value is not None:
                    mirror.add(step=step, name=f"speed/{name}", value=value)

    def sync(self) -> int:
        """Bring `metrics.jsonl` to the disk; returns its size in bytes, which `cut` takes."""
        self._metrics.flush()
        os.fsync(self._metrics.fileno())
        return os.fstat(self._metrics.fileno()).st_size

    def close(self, *, finished: bool = True) -> None:
        """Close both files, and wait for the mirrors as long as `tracking.patience` allows."""
        for mirror in self._mirrors:
            mirror.end(finished=finished)
        try:
            self._metrics.close()
            self._speed.close()
        finally:
            for mirror in self._mirrors:
                mirror.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(finished=kind is None)


def _write(file: IO[str], row: Plain) -> None:
    file.write(json.dumps(row) + "\n")
    file.flush()


def cut(folder: Path, size: int) -> None:
    """Remove what `metrics.jsonl` got after a checkpoint, so that a resumed run duplicates nothing.

    An incomplete last line of `speed.jsonl` is removed too. `size`, in bytes, is that of `metrics.jsonl` when
    the checkpoint was made, from `Tracker.sync`.
    """
    path, speed = folder / _METRICS, folder / _SPEED
    written = path.read_bytes() if path.exists() else b""
    if len(written) < size or not written[:size].endswith(b"\n" if size else b""):
        raise RunFailed(
            f"{path}: is not the file that the checkpoint was made with: expected a line to end at byte "
            f"{size}, the file has {len(written)}; restore it, or start a new run",
            exit_code=NO_CHECKPOINT,
        )
    _truncate(path, size)
    if speed.exists():
        _truncate(speed, speed.read_bytes().rfind(b"\n") + 1)


def _truncate(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def problems(config: TrackingConfig) -> list[str]:
    """Trackers that the configuration asks for and that are not installed."""
    if config.tensorboard and find_spec("tensorboard") is None:
        return [
            f"tracking.tensorboard: needs the tensorboard package; {install_extra('tensorboard')}, "
            "or choose tracking=local"
        ]
    return []


def mirrors(config: TrackingConfig, folder: Path, *, name: str, options: Plain, step: int) -> "list[Mirror]":
    """Start the trackers that the configuration asks for, as `WandbRun` and `TensorboardFiles` say."""
    folder, patience = folder.resolve(), config.patience
    started = []
    if config.wandb is not None:
        connect = partial(WandbRun, folder, config.wandb, group=name, options=options, patience=patience)
        started.append(Mirror("tracking.wandb", connect, patience=patience))
    if config.tensorboard:
        connect = partial(TensorboardFiles, folder, step=step)
        started.append(Mirror("tracking.tensorboard", connect, patience=patience))
    return started


class Mirror:
    """A tracker outside of the run's own files, called in a thread of its own.

    It can neither raise into training nor delay any call but `wait`; whatever goes wrong is one warning,
    which starts with `option`. `connect`, called in the thread, makes the tracker.
    """

    def __init__(
        self, option: str, connect: "Callable[[], WandbRun | TensorboardFiles]", *, patience: float
    ) -> None:
        self._option, self._connect, self._patience = option, connect, patience
        self._values: SimpleQueue[tuple[int, str, float] | None] = SimpleQueue()
        self._warned = threading.Lock()  # taken once and for all by the one warning
        self._open = True
        self._thread = threading.Thread(target=self._feed, name=option, daemon=True)
        self._thread.start()

    def add(self, *, step: int, name: str, value: float) -> None:
        """Hand over one value; it is dropped where the tracker has fallen far behind or has failed."""
        if self._open and self._values.qsize() < _MOST_WAITING:
            self._values.put((step, name, value if math.isfinite(value) else math.nan))
        elif self._open:
            self._warn("takes values more slowly than training gives them, and some are missing there")

    def end(self, *, finished: bool) -> None:
        """Announce that no value follows; returns at once."""
        self._finished = finished
        seconds = self._patience if finished else min(self._patience, _UNFINISHED_SECONDS)
        self._deadline = time.monotonic() + seconds
        self._values.put(None)

    def wait(self) -> None:
        """Wait for the tracker's end, at most until `patience` seconds after `end` was called."""
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if self._finished and self._thread.is_alive():
            self._warn(f"had not ended after {self._patience:g} s; values may be missing there")

    def _feed(self) -> None:
        try:
            target = self._connect()
            while (value := self._values.get()) is not None:
                target.add(*value)
            target.close(finished=self._finished)
        except BaseException as fault:  # some libraries raise SystemExit
            self._warn(reason(fault))
        finally:
            self._open = False

    def _warn(self, why: str) -> None:
        if self._warned.acquire(blocking=False):
            text = f"{self._option}: {why}; training is not affected, and metrics.jsonl has every value"
            _log.info("warning: %s", text)
            with contextlib.suppress(OSError, ValueError):  # standard error may be closed by now
                say(f"warning: {text}")


def reason(fault: BaseException) -> str:
    """One line without the secret that the message of a refused log-in might quote."""
    text = str(fault) if isinstance(fault, EmbedrunError) else f"{type(fault).__name__}: {fault}"
    return " ".join(masked(text).split())[:_LONGEST_REASON]


class WandbRun:
    """One run on W&B, or its files below `RUN_DIR/wandb` that `wandb sync` uploads.

    Its id is in `RUN_DIR/wandb/id`, so that a resumed run continues under it. `folder` is the run directory,
    `group` that of the run where the configuration names none, `options` the resolved configuration.
    """

    def __init__(
        self, folder: Path, config: WandbConfig, *, group: str, options: Plain, patience: float
    ) -> None:
        identity = folder / "wandb" / "id"
        identity.parent.mkdir(exist_ok=True)
        if not identity.is_file():
            identity.write_text(secrets.token_hex(4) + "\n", encoding="utf-8")
        # wandb's error reports to its developers: an offline run should not use the network.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        settings = wandb.Settings(
            silent=True,
            console="off",
            save_code=False,
            disable_code=True,
            disable_git=True,
            symlink=False,
            finish_timeout=patience,  # else the exit of Python would wait for an upload without end
            x_disable_stats=True,
            x_disable_meta=True,
            x_save_requirements=False,
        )
        wandb.setup(settings)
        if config.mode == "online" and not wandb.login(prompt=False):  # `init` would ask for a key
            raise EmbedrunError(_NO_KEY)
        self._run = wandb.init(
            dir=str(folder),  # to which wandb adds the folder `wandb`
            id=identity.read_text(encoding="utf-8").strip(),
            resume="allow",
            settings=settings,
            config=dict(options),
            mode=config.mode,
            project=config.project,
            entity=config.entity,
            group=config.group or group,
            tags=config.tags,
            name=folder.name,
        )
        self._step = 0

    def add(self, step: int, name: str, value: float) -> None:
        """Log one value; what is of an earlier step than the last, which W&B refuses, at the last one."""
        self._step = max(self._step, step)
        self._run.log({name: value}, step=self._step)

    def close(self, *, finished: bool) -> None:
        """Mark the run as finished or as failed, and upload the rest."""
        self._run.finish(exit_code=0 if finished else 1)


class TensorboardFiles:
    """Event files below `RUN_DIR/tensorboard`; `folder` is the run directory.

    A resumed run writes another file beside the first, which discards what followed the checkpoint, of `step`
    optimizer steps; 0 for none.
    """

    def __init__(self, folder: Path, *, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        events = folder / "tensorboard"
        first = step + 1 if step else 0  # step 0 is that of the untrained scores
        purged = first if any(events.glob("events.*")) else None
        self._writer = SummaryWriter(str(events), purge_step=purged, flush_secs=15)

    def add(self, step: int, name: str, value: float) -> None:
        """Write one scalar."""
        self._writer.add_scalar(name, value, step)

    def close(self, *, finished: bool) -> None:
        """Flush everything to the file; it has no place for how the run ended."""
        self._writer.close()
