"""Runs that did not finish: which one to go on with, and whether it is still the same one."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun import files
from embedrun.commands.outcome import Outcome, complete
from embedrun.commands.run_files import as_text, flattened
from embedrun.console import say
from embedrun.errors import ConfigError
from embedrun.files import to_json, write_atomically
from embedrun.run import Run, began_with, config_hash, decisive, now

MODEL = "model "  # before a model's name, among the fingerprints of rows
_SCHEMA = 1  # of config.yaml
_WIDTH = 60  # characters of a value that is shown


def status_of(folder: Path) -> dict[str, Any]:
    """What `status.json` says; empty where it cannot be read."""
    try:
        return dict(json.loads((folder / "status.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def finished(directory: str | None, config: Mapping[str, Any]) -> Outcome | None:
    """How the run in a directory that the user named ended, where it has finished; it is said, too.

    Raises:
        ConfigError: if it is a run of another configuration.
    """
    if directory is None or status_of(Path(directory)).get("state") != "finished":
        return None
    folder = Path(directory)
    same_config(folder, config)
    return _told(folder)


def ended(folder: Path, config: Mapping[str, Any]) -> Outcome | None:
    """Mark the run in a directory as finished and say so, where it was killed when all was written.

    Raises:
        ConfigError: if it is a run of another configuration.
        EmbedrunError: exit 8, if another process writes into it.
    """
    if not (folder / "results.json").is_file():
        return None
    same_config(folder, config)
    complete(Run.claim(folder))
    return _told(folder)


def find(name: str, config: Mapping[str, Any], directory: str | None) -> Path | None:
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


def _told(folder: Path) -> Outcome:
    say(f"{folder}: has finished; its scores are in {folder / 'results.json'}")
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return Outcome(str(folder), results["main"])


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
