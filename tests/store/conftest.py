import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.store.catalogue import Catalogue

CATALOGUE = """
groups: {all: [subj, sts, plain]}
data_sets:
  subj:
    about: subjective or objective
    licence: research use
    files:
      senteval/subj/train.jsonl.gz:
        rows: 4
        labels: {0: 2, 1: 2}
        hub:
          repo: owner/subj
          revision: null
          files: [data/train.parquet]
          columns: {text: sentence, label: kind}
          values: {label: {objective: 1, subjective: 0, both: 2}}
          keep: {label: [0, 1]}
  sts:
    about: pairs
    licence: CC BY
    files:
      sts/a.tsv.gz:
        rows: 2
        score_scale: [0, 5]
        subsets: {news: 1, web: 1}
        hub:
          repo: owner/sts
          revision: "0123456789abcdef0123456789abcdef01234567"
          files: [one.jsonl, two.jsonl.gz]
          columns: {score: gold, sentence1: s1, sentence2: s2}
          constants: {subset: all}
      sts/sample.tsv.gz: {}
  plain:
    about: sentences
    licence: CC BY-SA
    files:
      wiki/a.txt.gz: {rows: 2}
"""
SUBJ = [
    '{"text": "a", "label": 1}',
    '{"text": "b", "label": 1}',
    '{"text": "c", "label": 0}',
    '{"text": "d", "label": 0}',
]
STS = ["subset\tscore\tsentence1\tsentence2", "news\t0\ta\tb", "web\t5\tc\td"]
FACTS = {
    "senteval/subj/train.jsonl.gz": {"columns": ["text", "label"], "labels": {"0": 2, "1": 2}},
    "sts/a.tsv.gz": {
        "columns": ["subset", "score", "sentence1", "sentence2"],
        "subsets": {"news": 1, "web": 1},
        "score_min_max": [0.0, 5.0],
    },
    "wiki/a.txt.gz": {},
}
Make = Callable[..., Path]


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """Three small data sets: a table with labels, one with scores, and plain text."""
    path = tmp_path / "hub.yaml"
    path.write_text(CATALOGUE)
    return Catalogue.read(path)


@pytest.fixture
def make_store(tmp_path: Path) -> Make:
    """A store of those data sets; `changed` gives other lines, `honest` a manifest that was made of them."""

    def make(name: str, changed: dict[str, list[str]] | None = None, *, honest: bool = False) -> Path:
        root, entries = tmp_path / name, []
        whole = {"senteval/subj/train.jsonl.gz": SUBJ, "sts/a.tsv.gz": STS, "wiki/a.txt.gz": ["One.", "Two."]}
        for path, lines in whole.items():
            other = (changed or {}).get(path, lines)
            entry = put(root, path, lines if not honest else other)
            entry["rows"] = len(lines if not honest else other) - path.endswith(".tsv.gz")
            entries.append({**entry, **({} if honest and path in (changed or {}) else FACTS[path])})
            if honest and path in (changed or {}):
                entries[-1] |= {"columns": FACTS[path]["columns"]} if FACTS[path] else {}
            put(root, path, other)
        (root / "MANIFEST.json").write_text(json.dumps(entries))
        return root

    return make


def put(root: Path, name: str, lines: list[str]) -> dict:
    """Write a packed file; returns the part of its entry that follows from its bytes."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    path.write_bytes(packed)
    return {"path": name, "bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}
