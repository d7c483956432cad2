"""The files of a run directory, read without trusting their content."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from embedrun import files
from embedrun.console import clean, number
from embedrun.errors import DataError
from embedrun.files import Plain

POOLING = "pooling"  # the note of a run that names the pooling of its scores
CHANGES = "changes"  # in results: by dev score, the ends of the interval of trained less untrained
LUCK = "checkpoint_luck"  # in results: what the best step would have had on test
LENGTH = "max_length"  # the note of a run that has the tokens of a text that was scored
SELECTED_BY = "selected_by"  # the note of a run that names the dev score which selected its checkpoint
STAGES = "stages"  # in environment.json: `stages_behind` the model that a run begins at
PARTS = ".parts"  # what a run needs to resume; removed when it has finished
BEGAN = f"{PARTS}/config.json"
CHOICES = "choices.yaml"
# Code that runs have recorded, to the code of now that gives equal values: such runs count as runs of now.
SAME_CODE: Mapping[str, str] = {}
MARKS = ("status.json", "run.log")  # only the second exists while the model of a new run is still loading


@dataclass(frozen=True)
class RunFiles:
    """The small files of one run directory, each read on first use; a missing one is empty.

    An unreadable or malformed file raises `DataError` on first use if `strict`, else it is empty, too.
    """

    path: Path
    strict: bool = True

    @classmethod
    def read(cls, path: Path, *, strict: bool = True) -> "RunFiles":
        """The files of one directory; if `strict`, the main four are read now, so that none fails later."""
        run = cls(path, strict)
        if strict:
            _ = run.config, run.environment, run.results
            if any(number(run.status.get(key, 0)) is None for key in ("step", "steps")):
                raise DataError(f"{path / 'status.json'}: step and steps are to be numbers")
        return run

    @cached_property
    def status(self) -> Plain:
        """`state`, `started`, `heartbeat` and more."""
        return self._mapping("status.json")

    @cached_property
    def config(self) -> Plain:
        """The resolved configuration."""
        return self._mapping("config.yaml")

    @cached_property
    def environment(self) -> Plain:
        """Versions, machine and data fingerprints."""
        return self._mapping("environment.json")

    @cached_property
    def results(self) -> Plain:
        """`main`, `scores` and more."""
        return self._mapping("results.json")

    @cached_property
    def began_with(self) -> Plain:
        """The configuration that an unfinished run began with; unlike `config.yaml`, nobody edits it."""
        return self._mapping(BEGAN)

    @cached_property
    def overrides(self) -> tuple[str, ...]:
        """What was asked for on the command line, as it was typed; nothing where that cannot be read."""
        try:
            loaded = files.read_yaml(self.path / "overrides.yaml")
        except (OSError, ValueError):
            return ()
        return tuple(map(str, loaded)) if isinstance(loaded, list) else ()

    @cached_property
    def choices(self) -> dict[str, str]:
        """The presets behind its configuration, by group: `{"experiment": "quickstart", "loss": "cosent"}`.

        Of a group that is not among them, none was chosen. Empty where they cannot be read.
        """
        chosen = RunFiles(self.path, strict=False)._mapping(CHOICES)
        return {group: str(choice) for group, choice in chosen.items()}

    @cached_property
    def contamination(self) -> Plain:
        """Which evaluation rows are in the training data, where that was checked."""
        return self._mapping("contamination.json")

    def _mapping(self, name: str) -> Plain:
        try:
            return _object(self.path / name)
        except DataError:
            if self.strict:
                raise
            return {}

    @property
    def state(self) -> str | None:
        """`running`, `finished`, `interrupted` or `failed`; None where none is recorded."""
        return _text(self.status.get("state"))

    @property
    def is_finished(self) -> bool:
        """Whether the recorded state is `finished`."""
        return self.state == "finished"

    @property
    def has_begun(self) -> bool:
        """Whether `config.yaml` exists, the last of the files that a run begins with."""
        return (self.path / "config.yaml").is_file()

    @property
    def config_sha256(self) -> str | None:
        """Hash of the configuration that it began with; None before it has begun."""
        return _text(self.status.get("config_sha256"))

    @property
    def when(self) -> str:
        """Time of its end, else of its last heartbeat, else of its start: ISO 8601, UTC; empty if unknown."""
        status = self.status
        return str(status.get("ended") or status.get("heartbeat") or status.get("started") or "")

    @property
    def data(self) -> Plain:
        """Fingerprints of the rows and models that it has read, and of its code, by name."""
        marks = _mapping(self.environment.get("data"))
        return {name: SAME_CODE.get(str(mark), mark) for name, mark in marks.items()}

    @property
    def scores(self) -> dict[str, float]:
        """The scores by key, × 100."""
        scores = self.results.get("scores")
        return {key: value for key, value in _mapping(scores).items() if isinstance(value, int | float)}

    @property
    def main(self) -> Plain:
        """`name` and `value` of the main score; empty where there is none."""
        return dict(_mapping(self.results.get("main")))


_Run = TypeVar("_Run", bound=Any)  # with `when` and `path`


def newest_first(runs: Iterable[_Run]) -> list[_Run]:
    """Runs by `when`, then by path, descending: the one order that decides which of several is the newest."""
    return sorted(runs, key=lambda run: (run.when, str(run.path)), reverse=True)


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run directory."""
    return any(os.path.isfile(folder / mark) for mark in MARKS)


def run_behind(model: object) -> RunFiles | None:
    """The run that a model's folder is, or is in; None of any other model, such as a hub id."""
    folder = Path(model if isinstance(model, str) else "")
    for place in (folder, *folder.parents[:2]):  # RUN_DIR, RUN_DIR/model, RUN_DIR/checkpoints/step-00000010
        if place.name and is_run(place):
            return RunFiles.read(place, strict=False)
    return None


def stages_behind(model: object) -> Plain:
    """`config` and `data` of each training of a run's model, the first first, for `environment.json`."""
    run = run_behind(model)
    if run is None or not {"backbone", "dataset", "training"} <= run.config.keys():
        return {}
    return {STAGES: [*run.environment.get(STAGES, []), {"config": run.config, "data": run.data}]}


def flattened(tree: Plain, prefix: str = "") -> Plain:
    """The leaves of nested mappings by dotted key; a list or an empty mapping is a leaf."""
    leaves: dict[str, object] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        leaves |= flattened(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return leaves


def at(tree: Plain, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = tree
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def as_text(value: object, width: int) -> str:
    """A value on one line of at most `width` characters; a long path keeps its end."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(clean(text).split())
    if len(text) <= width:
        return text
    return f"...{text[3 - width :]}" if "/" in text else f"{text[: width - 3]}..."


def some(words: Sequence[str], most: int) -> str:
    """The first words, and how many more there are."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def json_rows(lines: Iterable[str]) -> Iterator[Plain]:
    """The mapping that each line holds; an empty one where it holds none, as the last of a killed run."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        yield _mapping(row)


def _mapping(value: object) -> Plain:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _object(path: Path) -> Plain:
    try:
        if path.suffix == ".json":
            plain = files.read_json(path, numbers=_refuse)
        else:  # YAML may hold dates
            plain = json.loads(json.dumps(files.read_yaml(path), default=str, allow_nan=False))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as fault:
        raise DataError(f"{path}: cannot be read ({' '.join(str(fault).split())[:200]})") from fault
    if not isinstance(plain, dict):
        raise DataError(f"{path}: holds no mapping of names, so it is not a file of a run")
    return plain


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"holds {constant}, which no run writes")
