"""The local data store: find, read, verify, list and fill.

A store is one folder of gzip'd UTF-8 text with `\\n` line ends: `*.tsv.gz` (first line the header, no
quoting at all), `*.jsonl.gz` (one object a line) and `*.txt.gz` (one sentence a line), and a `MANIFEST.json`
that lists for each file its path, packed bytes, SHA-256, rows and columns, and counts by label or subset.
Training and evaluation only read it; `fill` alone writes.
"""

from embedrun.store.columns import LineFaults, shortened
from embedrun.store.folder import Store, verify
from embedrun.store.read import (
    KINDS,
    TEXT,
    kind,
    read_text,
    sha256,
)

__all__ = [
    "KINDS",
    "TEXT",
    "LineFaults",
    "Store",
    "kind",
    "read_text",
    "sha256",
    "shortened",
    "verify",
]
