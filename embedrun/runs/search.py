"""Find the run that is meant: by name, by configuration, the newest, the unfinished one."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun import files
from embedrun.config import nearest, presets
from embedrun.config.decides import decisive
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, to_json, write_atomically
from embedrun.runs.directory import Run, config_hash, now
from embedrun.runs.reading import RunFiles, as_text, flattened, newest_first

MODEL = "model "  # prefix of a model's name, among the fingerprints of rows
ASKED = "asked_sha256"  # in status.json: hash of the configuration before it was settled, if it has run:NAME
_OUTPUTS = Path("outputs")  # relative to the caller, as a new run's directory is
_SCHEMA = 1  # of config.yaml
_WIDTH = 60  # characters of a value that is shown


def of(name: str, config: str | None = None) -> list[RunFiles]:
    """The runs below `outputs/<name>/`, the newest first; a file that cannot be read counts as empty.

    With `config`, a config hash, only those whose directory names hold the first 6 digits of it. Nothing else
    identifies a run that was killed at once; of any other, compare the whole hash, `config_sha256`.
    """
    pattern = "*" if config is None else f"*-{config[:6]}*"
    return newest_first(RunFiles.read(path, strict=False) for path in (_OUTPUTS / name).glob(pattern))


def unfinished(name: str, config: Plain, directory: str | None) -> Path | None:
    """The run to resume: below `outputs/<name>/`, the newest unfinished one of this configuration not in use.

    Where the user named a `directory`, it is the run there, if one has begun; nothing else of it is checked.
    """
    if directory is not None:
        return Path(directory) if RunFiles(Path(directory)).has_begun else None
    wanted = config_hash(config)
    found = (run for run in of(name, wanted) if run.config_sha256 == wanted and _can_go_on(run))
    return next((run.path for run in found), None)


def _can_go_on(run: RunFiles) -> bool:
    return not run.is_finished and run.has_begun and Run.is_free(run.path)


# The options of a group, and those that a run began with, to the options as they are written down.
Pin = Callable[[Plain, object], Plain]


def settled_as_begun(plain: Plain, directory: str | None, pin: Pin | None = None) -> Plain:
    """`settled_for` the run to resume: the one in `directory`, where the user named it.

    Else it is the newest run that began from this configuration, has not finished and is not in use.
    """
    if directory is not None:
        return settled_for(plain, Path(directory), pin)
    wanted = config_hash(plain)
    found = (run for run in of(str(plain.get("name"))) if run.status.get(ASKED) == wanted)
    return settled_for(plain, next((run.path for run in found if _can_go_on(run)), None), pin)


def settled_for(plain: Plain, run: Path | None, pin: Pin | None = None) -> Plain:
    """`settled`, for the run in this directory to be resumed; None: a new run.

    If the run began from this configuration, each ``run:NAME`` stands for what it stood for then, whatever
    has finished since.
    """
    if run is None or RunFiles.read(run, strict=False).status.get(ASKED) != config_hash(plain):
        return settled(plain, pin=pin)
    return settled(plain, beginning(run), pin=pin)


def settled(plain: object, began: object = None, *, pin: Pin | None = None) -> Any:
    """Configuration data, of any form, in which each ``run:NAME`` is replaced by a directory.

    A configuration is settled before it is written down, so that a resumed run finds the model that it began
    with, whatever has finished since. What cannot be settled stays, for `locate` to report with everything
    else that is missing. `began` is the settled data of an earlier run, whose directories are used. `pin`
    settles what else the options of `dataset` leave open.
    """
    if isinstance(plain, Mapping):
        found = {
            key: (_place if key in _KEYS else settled)(one, _part(began, key)) for key, one in plain.items()
        }
        group = found.get("dataset")
        if pin is not None and isinstance(group, Mapping):
            found["dataset"] = pin(group, _part(began, "dataset"))
        return found
    if isinstance(plain, list):
        return [settled(one, _part(began, place)) for place, one in enumerate(plain)]
    return plain


_KEYS = ("name", "model")  # of the options that take a model's name


def _part(data: Any, key: object) -> Any:
    try:
        return data[key]
    except (LookupError, TypeError):
        return None


def _place(name: object, began: object) -> object:
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
    """The directory, as a full path, that ``run:NAME`` means now; any other name of a model as it is.

    It is the last finished run below `outputs/NAME/` that has a model: an evaluation has none.

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


def same_config(folder: Path, config: Plain) -> None:
    """Refuse to resume the run of a folder with another configuration than it began with.

    Raises:
        ConfigError: with every option that has changed, as `option: then -> now`.
    """
    began = RunFiles.read(folder, strict=False).config_sha256
    if began in (None, config_hash(config)):  # None: a run of a version that did not record it
        return
    then, here = flattened(decisive(beginning(folder))), flattened(decisive(config))
    changed = [key for key in {**then, **here} if then.get(key) != here.get(key)] if then else []
    advice = f"since {folder} began; change it back, or start a new run"
    raise ConfigError(
        [f"{key}: {_shown(then, key)} -> {_shown(here, key)} {advice}" for key in changed]
        or [f"{folder / 'config.yaml'}: has changed {advice}"]
    )


def _shown(options: Plain, key: str) -> str:
    return as_text(options[key], _WIDTH) if key in options else "not there"


def beginning(folder: Path) -> Plain:
    """The configuration that a run began with, by its hash; empty where no file has it any more."""
    run = RunFiles.read(folder, strict=False)
    return next((one for one in _written(run) if config_hash(one) == run.config_sha256), {})


def _written(run: RunFiles) -> Iterator[Plain]:
    """Candidates for the configuration that a run began with."""
    yield run.began_with
    yield {key: value for key, value in run.config.items() if key != "schema"}


def same_data(folder: Path, data: Mapping[str, str]) -> None:
    """Refuse to resume the run of a folder with other data, or other models, than it began with.

    `data` has the fingerprints of the splits and models that it would read now, by name.

    Raises:
        ConfigError: with every split and model that has changed.
    """
    began = RunFiles.read(folder, strict=False).data
    problems = [
        f"{name}: the {_content(name)} are not those that {folder} began with; start a new run"
        for name, fingerprint in data.items()
        if began.get(name) != fingerprint
    ]
    if problems:
        raise ConfigError(problems)


def _content(name: str) -> str:
    return "files" if name.startswith(MODEL) else "rows"


def note_resumed(folder: Path, step: int, differences: Sequence[str]) -> None:
    """Add to `environment.json` that a run is resumed after `step` optimizer steps.

    `differences` say, a line each, what is not as it was when the checkpoint was made.
    """
    environment = RunFiles.read(folder, strict=False).environment
    before = environment.get("resumed", [])
    entry = {"time": now(), "step": step, "differences": list(differences)}
    write_atomically(folder / "environment.json", to_json({**environment, "resumed": [*before, entry]}))


def configuration(folder: Path) -> Plain:
    """The content of `config.yaml`, to be run again; the caller must check it like any configuration.

    Keys keep their YAML types, such as numbers, which `RunFiles` turns into strings.

    Raises:
        ConfigError: if there is none, or it is of another schema version.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{folder}: is not the directory of a run that has begun; it has no config.yaml")
    try:
        plain = files.read_yaml(path)
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{path}: cannot be read ({fault})") from fault
    if not isinstance(plain, Mapping) or plain.get("schema") != _SCHEMA:
        raise ConfigError(f"{path}: is not a configuration of schema {_SCHEMA}, which this version writes")
    return {key: value for key, value in plain.items() if key != "schema"}
