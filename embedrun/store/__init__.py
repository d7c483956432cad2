"""The local data store: find, read, verify; never write.

A store is one folder of gzip'd UTF-8 text with `\\n` line ends: `*.tsv.gz` (first line the header, no
quoting at all), `*.jsonl.gz` (one object a line) and `*.txt.gz` (one sentence a line), and a `MANIFEST.json`
that lists for each file its path, packed bytes, SHA-256, rows and columns, and counts by label or subset.
"""

from embedrun.store.folder import Store
from embedrun.store.text import LineFaults, parse_object, read_text, require_columns, sha256
from embedrun.store.verify import verify

__all__ = ["LineFaults", "Store", "parse_object", "read_text", "require_columns", "sha256", "verify"]
