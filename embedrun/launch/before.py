"""What earlier attempts have left of a job: a finished run, one to go on with, or one that is in its way."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun.errors import IN_USE, USAGE, ConfigError, EmbedrunError
from embedrun.runs.directory import Outcome, Run, config_hash, is_empty
from embedrun.runs.search import MODEL, status_of

if TYPE_CHECKING:
    from embedrun.experiment.data import Fingerprints


@dataclass(frozen=True)
class Before:
    """What there is; all None: nothing.

    Args:
        finished: a run of the same configuration on the same rows, with the same models.
        unfinished: such a run that can go on.
        fault: why the job cannot be run where it should.
        code: exit code of that.
    """

    finished: Path | None = None
    unfinished: Path | None = None
    fault: str | None = None
    code: int = IN_USE


def before(
    command: str, config: Mapping[str, Any], directory: str | None, fingerprints: "Fingerprints"
) -> Before:
    """Look for earlier runs of one job.

    Args:
        command: `train` or `evaluate`.
        config: resolved plain data in which models are settled.
        directory: the run directory that the user named, where alone is looked then; else below `outputs`.
        fingerprints: of the rows and models that are there now.
    """
    wanted = config_hash(config)
    if directory is not None:
        return _in(Path(directory), wanted, command, config, fingerprints)
    folder = Path("outputs", str(config.get("name")))
    found = sorted(folder.glob(f"*-{wanted[:6]}*"), key=_age, reverse=True)
    same = [path for path in found if status_of(path).get("config_sha256") == wanted]
    own = [path for path in same if not fingerprints.changed(command, config, data_of(path))]
    for path in own:
        if is_finished(path):
            return Before(finished=path)
    open_ones = [path for path in own if (path / "config.yaml").is_file()]
    return standing(open_ones[0]) if open_ones else Before()


def standing(path: Path) -> Before:
    """An unfinished run as what is to be gone on with, unless another process is at it."""
    try:
        Run.claim(path).release()
    except (EmbedrunError, OSError) as fault:
        return _refused(fault)
    return Before(unfinished=path)


def is_finished(path: Path) -> bool:
    """Whether the run in a directory has finished."""
    return status_of(path).get("state") == "finished"


def outcome_of(path: Path) -> Outcome:
    """How a finished run ended."""
    return Outcome(str(path), _json(path / "results.json").get("main"))


def data_of(path: Path) -> dict[str, Any]:
    """Fingerprints of the rows and models that a run has read."""
    return dict(_json(path / "environment.json").get("data") or {})


def latest(config: Mapping[str, Any], directory: str | None) -> str | None:
    """The newest unfinished run of a configuration, for a job that died without naming it."""
    if directory is not None:
        return directory if Path(directory).is_dir() else None
    wanted = config_hash(config)
    paths = sorted(Path("outputs", str(config.get("name"))).glob(f"*-{wanted[:6]}*"), key=_age)
    return next((str(path) for path in reversed(paths) if not is_finished(path)), None)


def _in(
    folder: Path, wanted: str, command: str, config: Mapping[str, Any], fingerprints: "Fingerprints"
) -> Before:
    if not folder.exists():
        return Before()
    if not (folder / "config.yaml").is_file() and (folder / ".lock").is_file():
        return _emptied(folder)
    if status_of(folder).get("config_sha256") != wanted:
        return Before(fault=f"{folder} exists and is no run of this configuration; name another directory")
    if changed := fingerprints.changed(command, config, data_of(folder)):
        how = "has finished" if is_finished(folder) else "began"
        return Before(fault=f"{folder} {how} on other {content(changed)}; name another directory")
    return Before(finished=folder) if is_finished(folder) else standing(folder)


def content(changed: Sequence[str]) -> str:
    """What has changed, in words: `rows of stsb/train`.

    Args:
        changed: names of splits and models, as `Fingerprints` has them.
    """
    rows = ", ".join(name for name in changed if not name.startswith(MODEL))
    models = ", ".join(name.removeprefix(MODEL) for name in changed if name.startswith(MODEL))
    return " and ".join([*([f"rows of {rows}"] if rows else []), *([f"files of {models}"] if models else [])])


def _emptied(folder: Path) -> Before:
    """A directory whose run was killed before it had begun makes room, since nothing is in it."""
    if not is_empty(folder):
        return Before(fault=f"{folder} holds files of no run; name another directory")
    try:
        run = Run(folder)
    except EmbedrunError as fault:
        return _refused(fault)
    run.release()
    shutil.rmtree(folder)
    return Before()


def _refused(fault: Exception) -> Before:
    code = USAGE if isinstance(fault, ConfigError) else IN_USE
    return Before(fault=" ".join(str(fault).split()), code=code)


def _age(path: Path) -> str:
    status = status_of(path)
    return str(status.get("ended") or status.get("heartbeat") or "")


def _json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
