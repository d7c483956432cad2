"""From the finished blocks of an annotation to one data set, with its provenance and its scores by label."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedrun.dataset.annotation_parts import Parts
from embedrun.dataset.annotation_settings import Settings
from embedrun.dataset.columns import LABELS
from embedrun.errors import ConfigError, DataError
from embedrun.files import clear_remains, published
from embedrun.store import sha256

SCORED = "nli_scored.jsonl.gz"
PROVENANCE = "provenance.json"
BY_LABEL = "scores_by_label"  # .json and .png
_SHARES = tuple(share / 10 for share in range(1, 10))


@dataclass(frozen=True)
class Merged:
    """A whole annotation, without its texts.

    Args:
        label: 0 entailment, 1 neutral, 2 contradiction, ``(rows,)``.
        score: mean cosine of the teachers, ``(rows,)``.
    """

    label: np.ndarray
    score: np.ndarray

    def groups(self) -> dict[str, np.ndarray]:
        """The scores by the name of their label; a label without rows is left out."""
        found = {name: self.score[self.label == code] for code, name in enumerate(LABELS)}
        return {name: scores for name, scores in found.items() if len(scores)}


def merge(parts: Parts, folder: Path) -> Merged:
    """Write `nli_scored.jsonl.gz`, the rows of all blocks in their order.

    Equal parts give equal bytes: the gzip header holds neither time nor name.

    Args:
        parts: all of them done.
        folder: of the output.

    Raises:
        DataError: if a part is missing or damaged.
    """
    label, score = [], []
    with (
        published(folder / SCORED) as aside,
        aside.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
    ):
        for number in range(parts.count):
            columns = parts.read(number)
            rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
            packed.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
            label.append(np.array(columns["label"], dtype=np.int64))
            score.append(np.array(columns["score"]))
    return Merged(np.concatenate(label), np.concatenate(score))


def finish(folder: Path, settings: Settings, merged: Merged) -> None:
    """Write the table by label, and last of all the provenance, which says that the annotation is whole."""
    _write_json(folder / f"{BY_LABEL}.json", by_label(merged.groups()))
    _write_json(
        folder / PROVENANCE,
        {
            **settings.plain(),
            "score": "mean over the teachers of the cosine of the two texts' vectors (RAOE, Eq. 4)",
            "labels": {name: len(scores) for name, scores in merged.groups().items()},
            "file": {"path": SCORED, "rows": len(merged.label), "sha256": sha256(folder / SCORED)},
        },
    )
    clear_remains(folder)
    clear_remains(folder / "parts")


def finished(folder: Path, settings: Settings) -> bool:
    """Whether the folder holds this annotation, whole; its parts may be gone.

    Raises:
        ConfigError: if it holds another one.
        DataError: if its provenance cannot be read.
    """
    path = folder / PROVENANCE
    if not path.is_file():
        return False
    try:
        says = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise DataError(f"{path}: cannot be read as JSON ({fault}); name another output") from fault
    if difference := settings.difference(says):
        raise ConfigError(f"output: {folder} holds an annotation made {difference}; name another output")
    files = [folder / SCORED, folder / f"{BY_LABEL}.json", folder / f"{BY_LABEL}.png"]
    return all(file.is_file() for file in files) and sha256(files[0]) == says.get("file", {}).get("sha256")


def by_label(groups: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """Pairs, mean score and the nine deciles of the scores of each label.

    Args:
        groups: scores by label, each ``(rows,)``.
    """
    return {
        name: {
            "pairs": len(scores),
            "mean": round(float(scores.mean()), 6),
            "deciles": [round(float(value), 6) for value in np.quantile(scores, _SHARES)],
        }
        for name, scores in groups.items()
    }


def read_by_label(folder: Path) -> dict[str, dict[str, Any]]:
    """The table by label of a finished annotation."""
    return json.loads((folder / f"{BY_LABEL}.json").read_text(encoding="utf-8"))


def _write_json(path: Path, data: Any) -> None:
    with published(path) as aside:
        aside.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
