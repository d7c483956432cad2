"""What earlier attempts left of a job of a multirun: a finished run, one to resume, or one that blocks it.

A single run asks `embedrun.experiment.outcome.settled`.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.errors import IN_USE, EmbedrunError
from embedrun.files import Plain
from embedrun.runs import search
from embedrun.runs.directory import Outcome, Run, config_hash, is_empty
from embedrun.runs.reading import RunFiles
from embedrun.runs.search import changed, changes

if TYPE_CHECKING:
    from embedrun.experiment.data import Fingerprints


@dataclass(frozen=True)
class Before:
    """The run found, if any: of the same configuration and code, on the same rows, with the same models.

    An `unfinished` one can be resumed. `fault` is why the job cannot run where it should, `code` its exit
    code. `changed` is what has changed since the newest run of the configuration, where none was found.
    """

    finished: Path | None = None
    unfinished: Path | None = None
    fault: str | None = None
    code: int = IN_USE
    changed: str | None = None


def before(command: str, config: Plain, directory: str | None, fingerprints: "Fingerprints") -> Before:
    """Look for earlier runs of a `train` or `evaluate` job; its `config` is resolved, its models are settled.

    Where the user named a `directory`, only that is looked at, else `outputs`. `fingerprints` are of the
    current rows and models.
    """
    wanted = config_hash(config)
    if directory is not None:
        return _in(Path(directory), wanted, command, config, fingerprints)
    same = [run for run in search.of(str(config.get("name")), wanted) if run.config_sha256 == wanted]
    other = {run.path: changed(fingerprints.of(command, config), run.data) for run in same}
    equal = [run for run in same if not other[run.path]]  # the newest first
    finished = next((run.path for run in equal if run.is_finished), None)
    if finished is not None:
        return Before(finished=finished)
    begun = next((run.path for run in equal if run.has_begun), None)
    if begun is not None:
        return standing(begun)
    return Before(
        changed=next((f"{changes(names)} since {path}" for path, names in other.items() if names), None)
    )


def standing(path: Path) -> Before:
    """An unfinished run as one to resume, or the fault if another process is using it."""
    try:
        Run.claim(path).release()
    except EmbedrunError as fault:
        return Before(fault=" ".join(str(fault).split()), code=fault.exit_code)
    return Before(unfinished=path)


def outcome_of(path: Path) -> Outcome:
    """The outcome of a finished run."""
    return Outcome(str(path), RunFiles.read(path, strict=False).main or None)


def latest(config: Plain, directory: str | None) -> str | None:
    """The newest unfinished run of a configuration, for a job that died without naming its own."""
    if directory is not None:
        return directory if Path(directory).is_dir() else None
    found = search.of(str(config.get("name")), config_hash(config))
    return next((str(run.path) for run in found if not run.is_finished), None)


def _in(folder: Path, wanted: str, command: str, config: Plain, fingerprints: "Fingerprints") -> Before:
    if not folder.exists():
        return Before()
    run = RunFiles.read(folder, strict=False)
    if not run.has_begun and (folder / ".lock").is_file():
        return _emptied(folder)
    if run.config_sha256 != wanted:
        return Before(fault=f"{folder} exists and is not a run of this configuration; name another directory")
    if other := changed(fingerprints.of(command, config), run.data):
        how = "finished" if run.is_finished else "began"
        return Before(fault=f"{changes(other)} since {folder} {how}; name another directory")
    return Before(finished=folder) if run.is_finished else standing(folder)


def _emptied(folder: Path) -> Before:
    """Remove a directory whose run was killed before it had begun; nothing of value is in it."""
    if not is_empty(folder):
        return Before(fault=f"{folder} holds files of no run; name another directory")
    try:
        Run(folder).release()
    except EmbedrunError as fault:
        return Before(fault=" ".join(str(fault).split()), code=fault.exit_code)
    shutil.rmtree(folder)
    return Before()
