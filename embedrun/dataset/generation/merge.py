"""From all parts to the files that a person uses."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedrun.dataset.generation.parts import Parts
from embedrun.errors import DataError
from embedrun.files import clear_remains, packed, publish, to_json_lines

PAIRS = "pairs.jsonl.gz"
REJECTS = "rejects.jsonl"
PROVENANCE = "provenance.json"


def foreign(output: Path) -> list[str]:
    """Why an output folder is not one to write to, or to go on in."""
    there = [name for name in (PAIRS, REJECTS, PROVENANCE) if (output / name).exists()]
    if there and not (output / "parts").is_dir():
        return [
            f"output: {output} holds {', '.join(there)} and not the parts they were made from; "
            "give another folder"
        ]
    return []


def merge(output: Path, parts: Parts, number: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Join the parts in their order, and say where all comes from.

    Writes `pairs.jsonl.gz`, `rejects.jsonl` and, as the last, `provenance.json`, whose bytes depend on
    nothing but the parts and the facts. Files that are there and whole stay as they are.

    Args:
        output: the folder.
        parts: all there.
        number: of parts.
        facts: settings and input, as the provenance shows them.

    Returns:
        The content of `provenance.json`.

    Raises:
        DataError: if a part is damaged, or a finished file is not what it was.
    """
    pairs, rejects = [], []
    for block in range(number):
        made, rejected = parts.read(block)
        pairs += made
        rejects += rejected
    content = {PAIRS: packed(to_json_lines(pairs)), REJECTS: to_json_lines(rejects)}
    provenance = {
        "schema": 1,
        **facts,
        "counts": {
            "pairs": len(pairs),
            "positive": sum(row["score"] == 1 for row in pairs),
            "negative": sum(row["score"] == 0 for row in pairs),
            "pairs_by_llm": _counted(row["llm"] for row in pairs),
            "rejects": len(rejects),
            "rejects_by_reason": _counted(row["reason"] for row in rejects),
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
    }
    text = (json.dumps(provenance, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
    finished = (output / PROVENANCE).exists()
    for name, data in {**content, PROVENANCE: text}.items():
        path = output / name
        if path.exists() and path.read_bytes() == data:
            continue
        if finished:
            raise DataError(
                f"{path}: not what its parts give, or missing; move it and {PROVENANCE} away, and the same "
                "command makes both again"
            )
        # Without the provenance, which comes last, an interrupted merge of the same parts left it.
        publish(path, data, replace=True)
    for folder in (output, parts.folder):
        clear_remains(folder)
    return provenance


def _counted(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
