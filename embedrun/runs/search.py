"""Which run is meant: by name, by configuration, the newest, the one that did not finish."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun import files
from embedrun.config import nearest, presets
from embedrun.errors import ConfigError, DataError
from embedrun.files import to_json, write_atomically
from embedrun.runs.directory import Run, began_with, config_hash, decisive, now
from embedrun.runs.reading import as_text, flattened

MODEL = "model "  # before a model's name, among the fingerprints of rows
_SCHEMA = 1  # of config.yaml
_WIDTH = 60  # characters of a value that is shown


def status_of(folder: Path) -> dict[str, Any]:
    """What `status.json` says; empty where it cannot be read."""
    try:
        return dict(json.loads((folder / "status.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def unfinished(name: str, config: Mapping[str, Any], directory: str | None) -> Path | None:
    """The run to go on with: one of this configuration that did not finish.

    Args:
        name: of the experiment; of its runs below `outputs/<name>/`, the newest that is not in use.
        config: the configuration, resolved plain data.
        directory: where the user named one, the run there, if one has begun; nothing else of it is looked at.
    """
    if directory is not None:
        folder = Path(directory)
        return folder if (folder / "config.yaml").is_file() else None
    wanted = config_hash(config)
    found = []
    for path in Path("outputs", name).glob(f"*-{wanted[:6]}*"):
        status = status_of(path)
        is_it = status.get("config_sha256") == wanted and status.get("state") != "finished"
        if is_it and (path / "config.yaml").is_file() and Run.is_free(path):
            found.append((str(status.get("started")), path))
    return max(found, default=("", None))[1]


def same_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse to go on with another configuration than a run began with.

    Args:
        folder: its run directory.
        config: the configuration now, resolved plain data.

    Raises:
        ConfigError: with every option that is another one now, as `option: then -> now`.
    """
    began = status_of(folder).get("config_sha256")
    if began in (None, config_hash(config)):  # None: begun by a version that did not write it down
        return
    then, here = flattened(decisive(beginning(folder))), flattened(decisive(config))
    changed = [key for key in {**then, **here} if then.get(key) != here.get(key)] if then else []
    advice = f"since {folder} began; put it back, or start the new one in a run of its own"
    raise ConfigError(
        [f"{key}: {_shown(then, key)} -> {_shown(here, key)} {advice}" for key in changed]
        or [f"{folder / 'config.yaml'}: has changed {advice}"]
    )


def beginning(folder: Path) -> dict[str, Any]:
    """The configuration that a run began with, as plain data; empty where no file has it any more."""
    began = status_of(folder).get("config_sha256")
    return next((one for one in _written(folder) if config_hash(one) == began), {})


def same_data(folder: Path, data: Mapping[str, str]) -> None:
    """Refuse to go on with other data, or other models, than a run began with.

    Args:
        folder: its run directory.
        data: fingerprint of the rows of each split, and of each model, that it would read now, by name.

    Raises:
        ConfigError: with every split and model that is another one now.
    """
    began = _environment(folder).get("data", {})
    problems = [
        f"{name}: the {_content(name)} are not those that {folder} began with; start in a run of its own"
        for name, fingerprint in data.items()
        if began.get(name) != fingerprint
    ]
    if problems:
        raise ConfigError(problems)


def note_resumed(folder: Path, step: int, differences: Sequence[str]) -> None:
    """Add to `environment.json` where and with what other libraries a run goes on.

    Args:
        folder: its run directory.
        step: optimizer steps done.
        differences: what is not as it was when the checkpoint was made.
    """
    environment = _environment(folder)
    before = environment.get("resumed", [])
    entry = {"time": now(), "step": step, "differences": list(differences)}
    write_atomically(folder / "environment.json", to_json({**environment, "resumed": [*before, entry]}))


def configuration(folder: Path) -> dict[str, Any]:
    """What `config.yaml` says, as plain data; whoever uses it checks it like any other.

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


def _written(folder: Path) -> Iterator[dict[str, Any]]:
    """What may be the configuration that a run began with."""
    yield began_with(folder)
    with contextlib.suppress(ConfigError):
        yield configuration(folder)


def _environment(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "environment.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _content(name: str) -> str:
    return "files" if name.startswith(MODEL) else "rows"


def _shown(options: Mapping[str, Any], key: str) -> str:
    return as_text(options[key], _WIDTH) if key in options else "not there"


ASKED = "asked_sha256"  # in status.json: hash of the configuration with the names, where it has any


def settled_for(plain: Mapping[str, Any], run: Path | None) -> dict[str, Any]:
    """A configuration in which directories stand for the names.

    Args:
        plain: resolved plain data.
        run: directory of the run to go on with. If it began from this configuration, the names stand for what
            they stood for then, whatever has finished since. None: there is none.
    """

    began = None if run is None or status_of(run).get(ASKED) != config_hash(plain) else beginning(run)
    return settled(plain, began)


def settled_as_begun(plain: Mapping[str, Any], directory: str | None) -> dict[str, Any]:
    """The same, where the run to go on with is yet to be found.

    Args:
        plain: resolved plain data.
        directory: the run directory, where the user named one; else the newest run is meant that began from
            this configuration, has not finished and is not in use.
    """
    now = settled_for(plain, None)
    if now == plain:
        return now
    return settled_for(plain, Path(directory) if directory is not None else _unfinished_asked(plain))


def _unfinished_asked(plain: Mapping[str, Any]) -> Path | None:
    wanted, found = config_hash(plain), []
    for path in Path("outputs", str(plain.get("name"))).glob("*"):
        status = status_of(path)
        is_it = status.get(ASKED) == wanted and status.get("state") != "finished"
        if is_it and (path / "config.yaml").is_file() and Run.is_free(path):
            found.append((str(status.get("started")), path))
    return max(found, default=("", None))[1]


_MARK = "run:"
_OUTPUTS = Path("outputs")  # relative to the caller, as a new run's directory is
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KEYS = ("name", "model")  # of the options that a model's name can be given to


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
    folder = _OUTPUTS / wanted
    if not _RUN_NAME.fullmatch(wanted):
        raise DataError(
            f"model {name!r}: expected {_MARK}NAME with the name of runs, a folder below {_OUTPUTS}"
        )
    ended = [(when, path.name, path) for path in _runs(folder) if (when := _finished(path))]
    if not ended:
        raise DataError(f"model {name!r}: no finished run named {wanted} below {_OUTPUTS}; {_way_on(wanted)}")
    return str(max(ended)[-1].resolve())


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


def _runs(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def _finished(run: Path) -> str | None:
    """When the run finished, if it has, and has a model."""
    try:
        status = json.loads((run / "status.json").read_text(encoding="utf-8"))
        finished, ended = status["state"] == "finished", str(status["ended"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return ended if finished and (run / "model").is_dir() else None


def _way_on(wanted: str) -> str:
    hint = nearest(wanted, [path.name for path in _runs(_OUTPUTS) if path.name != wanted]).lstrip("; ")
    first = f"{hint} If not, " if hint else ""
    if wanted in presets.groups().get("experiment", []):
        first += f"run `embedrun train +experiment={wanted}` first, or "
    return f"{first}name one: backbone.name=RUN_DIR (evaluate: model=RUN_DIR)"
