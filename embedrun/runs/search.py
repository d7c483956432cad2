"""Which run is meant: by name, by configuration, the newest, the one that did not finish."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun import files
from embedrun.config import nearest, presets
from embedrun.config.decides import decisive
from embedrun.errors import ConfigError, DataError
from embedrun.files import to_json, write_atomically
from embedrun.runs.directory import Run, config_hash, now
from embedrun.runs.reading import RunFiles, as_text, flattened, newest_first

MODEL = "model "  # before a model's name, among the fingerprints of rows
ASKED = "asked_sha256"  # in status.json: hash of the configuration with the names, where it has any
_OUTPUTS = Path("outputs")  # relative to the caller, as a new run's directory is
_SCHEMA = 1  # of config.yaml
_WIDTH = 60  # characters of a value that is shown


def of(name: str, config: str | None = None) -> list[RunFiles]:
    """What lies below `outputs/<name>/`, the newest run first; a file that cannot be read counts as empty.

    Args:
        name: of the experiment.
        config: hash of a configuration, whose beginning is in the names of its directories. A run that was
            killed at once has nothing else to be known by; of any other, `config_sha256` is the whole hash.
    """
    pattern = "*" if config is None else f"*-{config[:6]}*"
    return newest_first(RunFiles.read(path, strict=False) for path in (_OUTPUTS / name).glob(pattern))


def unfinished(name: str, config: Mapping[str, Any], directory: str | None) -> Path | None:
    """The run to go on with: one of this configuration that did not finish.

    Args:
        name: of the experiment; of its runs below `outputs/<name>/`, the newest that is not in use.
        config: the configuration, resolved plain data.
        directory: where the user named one, the run there, if one has begun; nothing else of it is looked at.
    """
    if directory is not None:
        return Path(directory) if RunFiles(Path(directory)).has_begun else None
    wanted = config_hash(config)
    found = (run for run in of(name, wanted) if run.config_sha256 == wanted and _can_go_on(run))
    return next((run.path for run in found), None)


def _can_go_on(run: RunFiles) -> bool:
    return not run.is_finished and run.has_begun and Run.is_free(run.path)


def settled_as_begun(plain: Mapping[str, Any], directory: str | None) -> dict[str, Any]:
    """A configuration in which directories stand for the names; the run to go on with is yet to be found.

    Args:
        plain: resolved plain data.
        directory: the run directory, where the user named one; else the newest run is meant that began from
            this configuration, has not finished and is not in use.
    """
    anew = settled_for(plain, None)
    if anew == plain:
        return anew
    if directory is not None:
        return settled_for(plain, Path(directory))
    wanted = config_hash(plain)
    found = (run for run in of(str(plain.get("name"))) if run.status.get(ASKED) == wanted)
    run = next((run.path for run in found if _can_go_on(run)), None)
    return anew if run is None else settled_for(plain, run)


def settled_for(plain: Mapping[str, Any], run: Path | None) -> dict[str, Any]:
    """The same, where the run to go on with is known.

    Args:
        plain: resolved plain data.
        run: its directory. If it began from this configuration, the names stand for what they stood for then,
            whatever has finished since. None: there is none.
    """
    if run is None or RunFiles.read(run, strict=False).status.get(ASKED) != config_hash(plain):
        return settled(plain)
    return settled(plain, beginning(run))


def settled(plain: Any, began: Any = None) -> Any:
    """Configuration data in which directories stand for the ``run:NAME`` that there are.

    A configuration is settled before it is written down: a run that goes on then finds the model that it
    began with, whatever has finished since. What cannot be settled stays, for `locate` to report with
    everything else that is missing.

    Args:
        plain: plain data, of any form.
        began: the same as a run began with it, whose directories are taken; None: there is no such run.
    """
    if isinstance(plain, Mapping):
        return {
            key: (_place if key in _KEYS else settled)(one, _part(began, key)) for key, one in plain.items()
        }
    if isinstance(plain, list):
        return [settled(one, _part(began, place)) for place, one in enumerate(plain)]
    return plain


_KEYS = ("name", "model")  # of the options that a model's name can be given to


def _part(data: Any, key: Any) -> Any:
    try:
        return data[key]
    except (LookupError, TypeError):
        return None


def _place(name: Any, began: Any) -> Any:
    if not isinstance(name, str):
        return settled(name, began)
    if name.startswith(_MARK) and isinstance(began, str):
        return began
    try:
        return settle(name)
    except DataError:
        return name


_MARK = "run:"
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def settle(name: str) -> str:
    """The directory of the run that ``run:NAME`` stands for at this moment; any other name as it is.

    Args:
        name: of a model. Of the runs below `outputs/NAME/` the one that has finished last is meant, among
            those with a model: an evaluation has none.

    Returns:
        The name, or a directory as a full path, which means the same from everywhere.

    Raises:
        DataError: if there is no such run.
    """
    if not name.startswith(_MARK):
        return name
    wanted = name.removeprefix(_MARK)
    if not _RUN_NAME.fullmatch(wanted):
        raise DataError(
            f"model {name!r}: expected {_MARK}NAME with the name of runs, a folder below {_OUTPUTS}"
        )
    for run in of(wanted):
        if run.is_finished and (run.path / "model").is_dir():
            return str(run.path.resolve())
    raise DataError(f"model {name!r}: no finished run named {wanted} below {_OUTPUTS}; {_way_on(wanted)}")


def _way_on(wanted: str) -> str:
    others = [path.name for path in _OUTPUTS.glob("*") if path.is_dir() and path.name != wanted]
    hint = nearest(wanted, others).lstrip("; ")
    first = f"{hint} If not, " if hint else ""
    if wanted in presets.groups().get("experiment", []):
        first += f"run `embedrun train +experiment={wanted}` first, or "
    return f"{first}name one: backbone.name=RUN_DIR (evaluate: model=RUN_DIR)"


def same_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse to go on with another configuration than a run began with.

    Args:
        folder: its run directory.
        config: the configuration now, resolved plain data.

    Raises:
        ConfigError: with every option that is another one now, as `option: then -> now`.
    """
    began = RunFiles.read(folder, strict=False).config_sha256
    if began in (None, config_hash(config)):  # None: begun by a version that did not write it down
        return
    then, here = flattened(decisive(beginning(folder))), flattened(decisive(config))
    changed = [key for key in {**then, **here} if then.get(key) != here.get(key)] if then else []
    advice = f"since {folder} began; put it back, or start the new one in a run of its own"
    raise ConfigError(
        [f"{key}: {_shown(then, key)} -> {_shown(here, key)} {advice}" for key in changed]
        or [f"{folder / 'config.yaml'}: has changed {advice}"]
    )


def _shown(options: Mapping[str, Any], key: str) -> str:
    return as_text(options[key], _WIDTH) if key in options else "not there"


def beginning(folder: Path) -> dict[str, Any]:
    """The configuration that a run began with, as plain data; empty where no file has it any more."""
    run = RunFiles.read(folder, strict=False)
    return next((one for one in _written(run) if config_hash(one) == run.config_sha256), {})


def _written(run: RunFiles) -> Iterator[dict[str, Any]]:
    """What may be the configuration that a run began with."""
    yield run.began_with
    yield {key: value for key, value in run.config.items() if key != "schema"}


def same_data(folder: Path, data: Mapping[str, str]) -> None:
    """Refuse to go on with other data, or other models, than a run began with.

    Args:
        folder: its run directory.
        data: fingerprint of the rows of each split, and of each model, that it would read now, by name.

    Raises:
        ConfigError: with every split and model that is another one now.
    """
    began = RunFiles.read(folder, strict=False).data
    problems = [
        f"{name}: the {_content(name)} are not those that {folder} began with; start in a run of its own"
        for name, fingerprint in data.items()
        if began.get(name) != fingerprint
    ]
    if problems:
        raise ConfigError(problems)


def _content(name: str) -> str:
    return "files" if name.startswith(MODEL) else "rows"


def note_resumed(folder: Path, step: int, differences: Sequence[str]) -> None:
    """Add to `environment.json` where and with what other libraries a run goes on.

    Args:
        folder: its run directory.
        step: optimizer steps done.
        differences: what is not as it was when the checkpoint was made.
    """
    environment = RunFiles.read(folder, strict=False).environment
    before = environment.get("resumed", [])
    entry = {"time": now(), "step": step, "differences": list(differences)}
    write_atomically(folder / "environment.json", to_json({**environment, "resumed": [*before, entry]}))


def configuration(folder: Path) -> dict[str, Any]:
    """What `config.yaml` says, as plain data to be run again; whoever uses it checks it like any other.

    It is what YAML makes of it, numbers as names included, which `RunFiles` gives as texts.

    Raises:
        ConfigError: if there is none, or it is none of this version.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{folder}: is no directory of a run that has begun; it has no config.yaml")
    try:
        plain = files.read_yaml(path)
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{path}: cannot be read ({fault})") from fault
    if not isinstance(plain, Mapping) or plain.get("schema") != _SCHEMA:
        raise ConfigError(f"{path}: is not a configuration of schema {_SCHEMA}, which this version writes")
    return {key: value for key, value in plain.items() if key != "schema"}
