"""Find the run that is meant: by name, by configuration, the newest, the unfinished one."""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun import files
from embedrun.config import nearest, presets, safety
from embedrun.config.decides import decisive
from embedrun.config.mixture import is_mix, parts_of
from embedrun.console import say
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, expanded, is_alive, to_json, write_atomically
from embedrun.runs.directory import config_hash, holds_nothing, now
from embedrun.runs.listing import below
from embedrun.runs.reading import BEGAN, RunFiles, as_text, flattened, is_run, newest_first

# Prefixes of names among the fingerprints of rows: of a model, and of a class (embedrun/family.py).
MODEL, CODE = "model ", "code "
ASKED = "asked_sha256"  # in status.json: hash of the configuration before it was settled, if it has run:NAME
_OUTPUTS = Path("outputs")  # relative to the caller, as a new run's directory is
_SCHEMA = 1  # of config.yaml
# Folders below `outputs` whose runs nobody names: multirun summaries, tables of papers, trials of searches.
_OF_OTHERS = ("sweeps", "tables", "reproduce", "tune")
_WIDTH = 60  # characters of a value that is shown


def of(name: str, config: str | None = None) -> list[RunFiles]:
    """The runs below `outputs/<name>/`, the newest first; a file that cannot be read counts as empty.

    With `config`, a config hash, only those whose directory names hold its first 6 digits.
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
    runs = (run for run in of(name, wanted) if run.config_sha256 == wanted and _can_go_on(run))
    return next((run.path for run in runs), None)


def _can_go_on(run: RunFiles) -> bool:
    return not run.is_finished and run.has_begun and is_alive(run.path) is not True


# The options of a group, and those that a run began with, to the options as they are written down.
Pin = Callable[[Plain, object], Plain]


def settled_as_begun(plain: Plain, directory: str | None, pin: Pin | None = None) -> Plain:
    """`settled_for` the run to resume: the one in `directory`, where the user named it.

    Else it is the newest run that began from this configuration, has not finished and is not in use.
    """
    if directory is not None:
        return settled_for(plain, Path(directory), pin)
    wanted = config_hash(plain)
    runs = (run for run in of(str(plain.get("name"))) if run.status.get(ASKED) == wanted)
    return settled_for(plain, next((run.path for run in runs if _can_go_on(run)), None), pin)


def settled_for(plain: Plain, run: Path | None, pin: Pin | None = None) -> Plain:
    """`settled` as the run in this directory was, if it began from this configuration; None: a new run."""
    is_its = run is not None and RunFiles.read(run, strict=False).status.get(ASKED) == config_hash(plain)
    return settled(plain, beginning(run) if run is not None and is_its else None, pin=pin)


def settled(plain: Plain, began: Plain | None = None, *, pin: Pin | None = None) -> Plain:
    """Configuration data in which each ``run:NAME`` is replaced by a directory.

    What cannot be settled stays, for `locate` to report with everything else that is missing. Directories of
    `began`, the settled data of the run to be resumed, are kept, whatever has finished since. `pin` settles
    what else the options of `dataset` leave open.
    """
    values = _with_directories(plain, began)
    if pin is not None and isinstance(group := values.get("dataset"), Mapping):
        values["dataset"] = _pinned(group, _part(began, "dataset"), pin)
    return values


def _pinned(group: Plain, began: Any, pin: Pin) -> Plain:
    if not is_mix(group):
        return pin(group, began)
    parts = {
        name: {**part, "dataset": pin(part["dataset"], _part(_part(_part(began, "parts"), name), "dataset"))}
        for name, part in parts_of(group).items()
    }
    return {**group, "parts": parts}


def _with_directories(plain: object, began: object) -> Any:
    if isinstance(plain, list):
        return [_with_directories(value, _part(began, place)) for place, value in enumerate(plain)]
    if not isinstance(plain, Mapping):
        return plain
    values = {key: _with_directories(value, _part(began, key)) for key, value in plain.items()}
    models = [key for key in ("name", "model") if isinstance(plain.get(key), str)]
    return values | {key: _directory(plain[key], _part(began, key)) for key in models}


def _part(data: Any, key: object) -> Any:
    try:
        return data[key]
    except (LookupError, TypeError):
        return None


def _directory(name: str, began: object) -> str:
    if name.startswith(MARK) and isinstance(began, str):
        return began
    try:
        return settle(name)
    except DataError:
        return name


MARK = "run:"
LATEST = "latest"
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_MODEL_FILES = ("config.json", "adapter_config.json", "modules.json")  # no run is looked for beside them
_LISTED = 10  # runs that a word may mean
_NEAR = 3  # names that are offered for one that is none
FORMS = (
    f"a run directory, {MARK}NAME, {MARK}{LATEST}, a model folder or a hub id (train: backbone.name=DIR, "
    "evaluate: model=DIR)"
)  # what names a model


@dataclass(frozen=True)
class Kind:
    """The runs that a command takes: `what` they are in its messages, and which runs `fits`.

    With `any_else`, a run that does not fit is meant where none does, for the command to say what it lacks.
    """

    what: str
    fits: Callable[[RunFiles], bool] = lambda run: True
    any_else: bool = True


ANY = Kind("run")
UNFINISHED = Kind("run", _can_go_on)
OF_MODEL = Kind(
    "finished run with a model", lambda run: run.is_finished and (run.path / "model").is_dir(), any_else=False
)


def settle(name: str) -> str:
    """The full path of the finished run with a model that ``run:WORD`` means; any other name as it is."""
    return str(_meant(name, OF_MODEL)[0].resolve()) if name.startswith(MARK) else name


def named(word: str, kind: Kind = ANY) -> str:
    """The run directory that a person means by a word; the word itself where it means none.

    It may be a path; ``latest``, for the newest run; the name of runs, a folder below `outputs`, for the
    newest of them; or a part of `RUN` or `NAME/RUN` that only one run below `outputs` has. A folder without a
    run or a model of its own means the newest run below it. After ``run:`` stands a word that is no path.
    Which run is meant is said wherever the word is not its path.
    """
    folder = expanded(word)
    is_itself = os.path.exists(folder) and _is_itself(folder)  # False of a word too long for a path
    if is_itself or not (word.startswith(MARK) or word == LATEST or _candidates(word)[0]):
        return word
    path, how = _meant(word, kind)
    say(f"{word}: {path}{how}")
    return str(path)


def meant(path: Path) -> Path:
    """As `named`, for whoever takes a folder for all runs below it."""
    return path if path.is_dir() else Path(named(str(path)))


def _is_itself(path: Path) -> bool:
    return not path.is_dir() or is_run(path) or any((path / name).is_file() for name in _MODEL_FILES)


def _candidates(word: str) -> tuple[list[Path], Path | None]:
    """The runs that a word may mean, and the folder whose newest it means; None: it must mean one."""
    text = word.removeprefix(MARK)
    if text == word and (runs := list(_below(expanded(word)))):
        return runs, Path(word)
    if not _RUN_NAME.fullmatch(text):
        return [], None
    folder = _OUTPUTS if text == LATEST else _OUTPUTS / text
    runs = list(_below(folder))
    return (runs, folder) if runs or text == LATEST else (_with_part(text), None)


def _meant(word: str, kind: Kind) -> tuple[Path, str]:
    paths, folder = _candidates(word)
    every = newest_first(RunFiles.read(path, strict=False) for path in paths)
    runs = [run for run in every if kind.fits(run)]
    if folder is None or kind.any_else:
        runs = runs or every
    if not runs:
        raise _none(word, kind)
    if folder is None and len(runs) > 1:
        listed = [f"{run.path}  {run.state or 'no status'} {run.when[:16]}" for run in runs[:_LISTED]]
        more = [f"and {len(runs) - _LISTED} more"] if len(runs) > _LISTED else []
        problem = f"{word!r} is in the names of {len(runs)} runs; write more of the one that is meant:"
        raise ConfigError("\n    ".join([problem, *listed, *more]))
    return runs[0].path, f", the newest of {len(runs)} runs" if len(runs) > 1 else ""


def _with_part(part: str) -> list[Path]:
    part = part.removeprefix(f"{_OUTPUTS}/")
    names = {
        path: path.relative_to(_OUTPUTS).as_posix() if "/" in part else path.name for path in _below(_OUTPUTS)
    }
    return [path for path, name in names.items() if name == part] or [
        path for path, name in names.items() if part in name
    ]


def _below(folder: Path) -> Iterator[Path]:
    yield from below(folder, without=_OF_OTHERS) if os.path.isdir(folder) else ()


def _none(word: str, kind: Kind) -> DataError:
    text, is_model = word.removeprefix(MARK), kind is OF_MODEL
    names = [path.name for path in _OUTPUTS.glob("*") if path.is_dir() and path.name != text]
    hint = near_models(text) if is_model else nearest(text, names)
    if text in presets.groups().get("experiment", []):
        hint = f"; run `embedrun train +experiment={text}` first"
    forms = FORMS if is_model else f"a run directory, {MARK}NAME or {LATEST}; embedrun runs lists them"
    next_step = f"{' If not, ' if hint.endswith('?') else '; '}name one: {forms}"
    subject = f"model {word!r}" if is_model else repr(word)
    return DataError(f"{subject}: no {kind.what} named {text} below {_OUTPUTS}{hint}{next_step}")


def near_models(word: str) -> str:
    """`"; did you mean 'run:toy'?"` for a word that names no model here, or an empty string.

    Where none of runs and presets is near, `"; runs with a model: run:toy"`, the newest.
    """
    text = word.removeprefix(MARK).removeprefix(f"{_OUTPUTS}/")
    runs = [run for path in _below(_OUTPUTS) if OF_MODEL.fits(run := RunFiles.read(path, strict=False))]
    places = [run.path.relative_to(_OUTPUTS) for run in newest_first(runs)]
    names = list(dict.fromkeys(f"{MARK}{place.parts[0]}" for place in places))
    spelled = {place.name: f"{MARK}{place}" for place in places}
    spelled |= {name.removeprefix(MARK): name for name in names} | _models_of_presets()
    if word not in spelled.values() and (near := difflib.get_close_matches(text, spelled, _NEAR)):
        return f"; did you mean {' or '.join(dict.fromkeys(repr(spelled[name]) for name in near))}?"
    return f"; runs with a model: {', '.join(names[:_NEAR])}" if names else ""


def _models_of_presets() -> dict[str, str]:
    words = {}
    for preset in presets.groups()["backbone"]:
        if isinstance(model := presets.whole(presets.folder(), f"backbone/{preset}").get("name"), str):
            words |= {preset: model, model: model, model.rpartition("/")[2]: model}
    return words


def same_config(folder: Path, config: Plain) -> None:
    """Refuse to resume a run with another configuration than it began with, with every changed option.

    Only the number of processes may be another one.
    """
    began = RunFiles.read(folder, strict=False).config_sha256
    if began in (None, config_hash(config)):  # None: it has not begun
        return
    processes = (beginning(folder).get("gpu") or {}).get("processes")
    if began == config_hash({**config, "gpu": {**config.get("gpu", {}), "processes": processes}}):
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
    written = {key: value for key, value in run.config.items() if key != "schema"}
    candidates = (config for config in (run.began_with, written) if config_hash(config) == run.config_sha256)
    return next(candidates, {})


def same_data(folder: Path, data: Mapping[str, str]) -> None:
    """Refuse to resume a run with other data, models or code than it began with, by their fingerprints."""
    began = {name: None for name in data if not name.startswith(CODE)}
    began |= RunFiles.read(folder, strict=False).data
    problems = [f"{changes([name])} since {folder} began; start a new run" for name in changed(data, began)]
    if problems:
        raise ConfigError(problems)


def changed(now: Mapping[str, str], began: Mapping[str, object]) -> list[str]:
    """The names of what has another fingerprint now; what is not in `began` counts as unchanged."""
    return [name for name, mark in now.items() if began.get(name, mark) != mark]


def changes(names: Sequence[str]) -> str:
    """The same in words, as `the rows of stsb/train have changed and the code of angle has changed`."""
    changed_names = {
        "rows of {} have": [name for name in names if not name.startswith((MODEL, CODE))],
        "files of {} have": [name.removeprefix(MODEL) for name in names if name.startswith(MODEL)],
        "code of {} has": [name.rpartition(" ")[2] for name in names if name.startswith(CODE)],
    }
    return " and ".join(
        f"the {words.format(', '.join(of))} changed" for words, of in changed_names.items() if of
    )


def note_resumed(folder: Path, step: int, differences: Sequence[str]) -> None:
    """Add to `environment.json` that a run is resumed after `step` steps, and what is not as it was then."""
    environment = RunFiles.read(folder, strict=False).environment
    before = environment.get("resumed", [])
    entry = {"time": now(), "step": step, "differences": list(differences)}
    write_atomically(folder / "environment.json", to_json({**environment, "resumed": [*before, entry]}))


def refuse_code(folder: Path) -> None:
    """Refuse a run directory whose configuration names code: no run of ours ever had such a one."""
    run = RunFiles.read(folder, strict=False)
    configs = {folder / "config.yaml": run.config, folder / BEGAN: run.began_with}
    if problems := [f"{path}: {key}" for path, plain in configs.items() for key in safety.code_keys(plain)]:
        raise ConfigError(problems)


def configuration(folder: Path) -> Plain:
    """The content of `config.yaml`, to be run again; the caller must check it like any configuration.

    Keys keep their YAML types, such as numbers, which `RunFiles` turns into strings.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        if holds_nothing(folder):
            raise ConfigError(f"{folder}: holds nothing yet; delete it, and start the run again")
        raise ConfigError(f"{folder}: is not the directory of a run that has begun; it has no config.yaml")
    try:
        plain = files.read_yaml(path)
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{path}: cannot be read ({fault})") from fault
    if not isinstance(plain, Mapping) or plain.get("schema") != _SCHEMA:
        raise ConfigError(f"{path}: is not a configuration of schema {_SCHEMA}, which this version writes")
    return {key: value for key, value in plain.items() if key != "schema"}
