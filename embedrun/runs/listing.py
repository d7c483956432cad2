"""The runs below some folders, as data and as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedrun.console import aligned, score_text
from embedrun.errors import DataError
from embedrun.files import Plain, is_alive
from embedrun.runs import labels
from embedrun.runs.reading import RunFiles, as_text, is_run

DEPTH = 4  # folders below the given one: outputs/<experiment>/<sweep>/<run> and one to spare
_COLUMNS = 3  # options in columns of their own
_WIDTH = 28  # characters of an option's value
_NAMED = 12  # options that are named below the table
# Folders below `outputs` that are no runs: multirun summaries, searches, tables of papers and their output.
_OWN = ("sweeps", "tables", "reproduce", "tune")


@dataclass(frozen=True)
class Found:
    """What lies below some folders.

    Args:
        runs: in the order in which they began.
        foreign: folders without a run in them or below.
        broken: why a run directory cannot be read, a line each.
        unseen: folders at the depth limit, whose subfolders were not searched.
    """

    runs: list[RunFiles]
    foreign: list[Path]
    broken: list[str]
    unseen: list[Path]

    def where(self, folder: Path) -> str:
        """A folder without a run, as text; with the depth limit where that ended the search."""
        deeper = any(path.is_relative_to(folder) for path in self.unseen)
        return f"{folder} (looked {DEPTH} folders deep)" if deeper else str(folder)


def find(folders: Sequence[Path]) -> Found:
    """Every run in or below the folders, at most `DEPTH` deep; links and hidden folders are skipped."""
    found = Found([], [], [], [])
    for folder in dict.fromkeys(folders):
        _walk(folder, DEPTH, found)
    found.runs.sort(key=lambda run: str(run.status.get("started", "")))
    return found


def _walk(folder: Path, depth: int, found: Found) -> bool:
    """Add a folder's content to `found`; true if it holds a run, broken or not, or is one of `_OWN`."""
    try:
        if is_run(folder):
            found.runs.append(RunFiles.read(folder))
            return True
        inside = [path for path in sorted(folder.iterdir()) if _is_plain_folder(path)]
    except DataError as fault:
        found.broken.extend(fault.problems)
        return True
    except OSError as fault:
        found.broken.append(f"{folder}: cannot be looked into ({fault.strerror})")
        return True
    if inside and not depth:
        found.unseen.append(folder)
        inside = []
    before = len(found.foreign)
    holds = [_walk(path, depth - 1, found) for path in inside]
    if folder.name in _OWN:
        del found.foreign[before:]
    elif not any(holds):
        found.foreign[before:] = [folder]  # only the topmost is named
        return False
    return True


def _is_plain_folder(path: Path) -> bool:
    return not path.name.startswith(".") and not path.is_symlink() and path.is_dir()


def data(found: Found) -> Plain:
    """The list as JSON-compatible data."""
    options = labels.options(found.runs)
    runs = [
        {
            "directory": str(run.path),
            "state": run.status.get("state"),
            "alive": is_alive(run.path) if run.status.get("state") == "running" else None,
            "experiment": run.config.get("name"),
            "started": run.status.get("started"),
            "heartbeat": run.status.get("heartbeat"),
            "ended": run.status.get("ended"),
            "error": run.status.get("error"),
            "choices": dict(run.choices),
            "options": {key: values[place] for key, values in options.items()},
            "main": run.main or None,
        }
        for place, run in enumerate(found.runs)
    ]
    named = {"foreign": found.foreign, "unseen": found.unseen}
    return {
        "runs": runs,
        **{key: [str(path) for path in paths] for key, paths in named.items()},
        "broken": found.broken,
    }


def table(found: Found, now: datetime) -> str:
    """The list as text: a line for each run, of at least one, and the names of further options that differ.

    The age of a heartbeat is counted from `now`, which needs a time zone.
    """
    options = labels.columns(found.runs)
    columns, rest = list(options)[:_COLUMNS], list(options)[_COLUMNS:]
    cells = [["run", "state", "experiment", "started", *columns, "main score", "value"]]
    for place, run in enumerate(found.runs):
        own = [as_text(options[key][place], _WIDTH) for key in columns]
        name, value = run.main.get("name"), run.main.get("value")
        cells.append(
            [
                str(run.path),
                _state(run, now),
                str(run.config.get("name", "-")),
                _started(run.status),
                *["-" if text == "null" else text for text in own],
                str(name or "-"),
                score_text(str(name), value if isinstance(value, int | float) else None),
            ]
        )
    lines = aligned(cells, right=[len(cells[0]) - 1])
    if not rest:
        return lines
    more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
    return f"{lines}\n\nalso different: {', '.join(rest[:_NAMED])}{more} (--diff A B shows two runs)"


def _state(run: RunFiles, now: datetime) -> str:
    """The recorded state; of a running run also the age of its heartbeat, and whether its process is gone."""
    state = str(run.status.get("state", "no status yet"))
    if state != "running":
        return state
    state = "killed" if is_alive(run.path) is False else state
    beat = _time(run.status.get("heartbeat"))
    return state if beat is None else f"{state}, last heartbeat {_age(now, beat)} ago"


def _started(status: Plain) -> str:
    started = _time(status.get("started"))
    return "-" if started is None else f"{started:%Y-%m-%d %H:%M}"


def _time(text: Any) -> datetime | None:
    """ISO 8601 as local time, UTC by default; None where the text is no time, or one out of range."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone()
    except (TypeError, ValueError, OverflowError):
        return None


def _age(now: datetime, then: datetime) -> str:
    seconds = max(0, int((now - then).total_seconds()))
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
