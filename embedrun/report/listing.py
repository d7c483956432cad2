"""The files of a run directory: how large each is, and what it holds."""

import os
from dataclasses import dataclass
from pathlib import Path

from embedrun.console import size

_MOST = 60  # lines of the list
_HOLDS = {
    "config.yaml": "the resolved configuration",
    "overrides.yaml": "what was asked for on the command line",
    "environment.json": "versions, machine, code, data fingerprints",
    "status.json": "how the run stands",
    "run.log": "everything it said, with any traceback",
    "metrics.jsonl": "values by step",
    "speed.jsonl": "rows and tokens a second, memory",
    "results.json": "scores, intervals, baseline, counts, times",
    "contamination.json": "evaluation rows that the model has seen",
    "predictions": "gold and score of every scored row",
    "checkpoints": "weights, optimizer and random state by step",
    "model": "the best weights, for embedrun, transformers and sentence-transformers",
    "plots": "what is shown above",
}


@dataclass(frozen=True)
class Entry:
    """One file or folder.

    Args:
        name: a folder's with a slash behind it.
        size: with the number of files of a folder.
        holds: in words; empty where it is no file that every run has.
    """

    name: str
    size: str
    holds: str


def listing(folder: Path) -> list[Entry]:
    """What stands in a run directory; without hidden files and the page itself."""
    found = []
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if path.name.startswith(".") or path.name == "report.html":
            continue
        holds = _HOLDS.get(path.name, "")
        if path.is_dir() and not path.is_symlink():
            sizes = _sizes(path)
            many = f"{len(sizes):,} file{'s' if len(sizes) != 1 else ''}"
            found.append(Entry(f"{path.name}/", f"{many}, {size(sum(sizes))}", holds))
        else:
            found.append(Entry(path.name, size(path.lstat().st_size), holds))
    return found[:_MOST]


def _sizes(folder: Path) -> list[int]:
    """Bytes of every file below a folder; links are not followed."""
    sizes = []
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append((Path(root) / name).lstat().st_size)
            except OSError:  # pruned meanwhile
                continue
    return sizes
