"""The parts of an annotation, merged, with its provenance."""

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from embedrun.blocks import Parts
from embedrun.console import say
from embedrun.curation.annotation.teachers import (
    Block,
    Encode,
    Settings,
    average,
    block_count,
    block_of,
    similarities,
)
from embedrun.dataset.nli_scored import Merged, by_label
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.data import skip_warning, skipped_in, write_skipped
from embedrun.files import Plain, as_written, publish, read_json, to_json, whole_file
from embedrun.rows import Rows
from embedrun.store import sha256

_KEY = b"embedrun.annotation"
_DECIMALS = 7  # a cosine of float32 vectors carries no more
_AGAIN = "remove it, and the same command makes it again"


class Annotated(Parts):
    """The blocks of one annotation that are done, as Parquet; the output folder need not exist."""

    def __init__(self, output: Path, settings: Settings) -> None:
        count = block_count(settings.rows["count"], settings.block_rows)
        super().__init__(output, "part-{:05}.parquet", count)
        self.settings = settings
        self.columns = [f"score_{number}" for number in range(1, len(settings.teachers) + 1)]

    def check(self) -> None:
        """Compare every existing part with the settings.

        Raises:
            ConfigError: if the folder has parts of another annotation.
            DataError: if a part cannot be read.
        """
        foreign: dict[str, list[str]] = {}
        damaged = []
        for path in map(self.path, self.there()):
            try:
                difference = self.settings.difference(_says(path))
            except DataError as fault:
                damaged += fault.problems
                continue
            if difference:
                foreign.setdefault(difference, []).append(path.name)
        if foreign:
            raise ConfigError(
                [
                    f"output: {self.folder} holds parts made {how}: {names[0]}"
                    f"{f' and {len(names) - 1} more' if len(names) > 1 else ''}; name another output"
                    for how, names in foreign.items()
                ]
            )
        if damaged:
            raise DataError(damaged)

    def write(self, block: Block, found: np.ndarray) -> None:
        """Write one block, complete or not at all, with its cosines `found`, ``(rows, teachers)``."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {"text1": block.left, "text2": block.right, "label": block.label}
        columns["score"] = np.round(average(found), _DECIMALS)
        columns |= {name: np.round(found[:, place], _DECIMALS) for place, name in enumerate(self.columns)}
        says = json.dumps({**self.settings.plain(), "block": block.number}, ensure_ascii=False)
        table = pa.table(columns).replace_schema_metadata({_KEY: says.encode()})
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path(block.number)) as aside:
            pq.write_table(table, aside, write_page_checksum=True)

    def read(self, number: int) -> dict[str, list[object]]:
        """The columns of a block: text1, text2, label, score, and the cosine of each teacher.

        Raises:
            DataError: if the file is missing, damaged, or that of another block.
        """
        import pyarrow.parquet as pq

        path, rows = self.path(number), self.settings.rows["count"]
        expected = min(self.settings.block_rows, rows - number * self.settings.block_rows)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read()
            content = table.to_pydict()
        except (OSError, ValueError) as fault:  # Arrow's own faults are of these two kinds
            raise DataError(_unreadable(path, fault)) from fault
        if _says(path).get("block") != number or table.num_rows != expected:
            raise DataError(f"{path}: is not block {number} of {expected} rows; {_AGAIN}")
        return content


def annotate_blocks(
    rows: Rows, parts: Annotated, numbers: Sequence[int], teachers: Sequence[Encode]
) -> Iterator[int]:
    """Score blocks and write each as soon as it is done; yields the number of rows of each.

    `rows` are pairs with labels; `teachers` are in the order of the settings.
    """
    for number in numbers:
        block = block_of(rows, number, parts.settings.block_rows)
        parts.write(block, similarities(block, teachers))
        yield len(block.left)


def _says(path: Path) -> Plain:
    """What a part records of itself."""
    import pyarrow.parquet as pq

    try:
        says = json.loads((pq.read_schema(path).metadata or {}).get(_KEY, b"{}"))
    except (OSError, ValueError, RecursionError) as fault:
        raise DataError(_unreadable(path, fault)) from fault
    return says if isinstance(says, dict) else {}


def _unreadable(path: Path, fault: Exception) -> str:
    first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
    return f"{path}: cannot be read as Parquet ({first}); {_AGAIN}"


def make(output: Path) -> None:
    """Create the folder if needed; ConfigError if that fails, or it cannot be written to."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as fault:
        raise ConfigError(f"output: {str(output)!r} cannot be a folder ({fault}); name another") from None
    if not os.access(output, os.W_OK | os.X_OK):
        raise ConfigError(f"output: {str(output)!r} cannot be written to; name another")


def list_skipped(rows: Rows, output: Path) -> None:
    """Record and report the faulty rows that the data set left out."""
    skipped = skipped_in([rows])
    write_skipped(skipped, output)
    if warning := skip_warning(skipped):
        say(f"warning: {warning}")


SCORED = "nli_scored.jsonl.gz"
PROVENANCE = "provenance.json"
BY_LABEL = "scores_by_label"  # .json and .png


def merge(parts: Annotated) -> Merged:
    """Write `nli_scored.jsonl.gz`, the rows of all blocks in their order; all parts must be done.

    Equal parts give equal bytes: the gzip header holds neither time nor name.

    Raises:
        DataError: if a part is missing or damaged.
    """
    label, score = [], []
    with (
        whole_file(parts.output / SCORED) as aside,
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


def finish(parts: Annotated, merged: Merged) -> None:
    """Write the table by label, and last the provenance, which marks the annotation as complete."""
    _write_json(parts.output / f"{BY_LABEL}.json", by_label(merged.groups()))
    _write_json(
        parts.output / PROVENANCE,
        {
            **parts.settings.plain(),
            "score": "mean over the teachers of the cosine of the two texts' vectors (RAOE, Eq. 4)",
            "labels": {name: len(scores) for name, scores in merged.groups().items()},
            "file": {"path": SCORED, "rows": len(merged.label), "sha256": sha256(parts.output / SCORED)},
        },
    )
    parts.clear_remains()


def finished(folder: Path, settings: Settings) -> bool:
    """Whether the folder holds this annotation, complete; its parts may be gone.

    Raises:
        ConfigError: if it holds another one.
        DataError: if its provenance cannot be read.
    """
    path = folder / PROVENANCE
    if not path.is_file():
        return False
    with as_written(path, "the provenance of an annotation", "name another output"):
        says = read_json(path)
        if difference := settings.difference(says):
            raise ConfigError(f"output: {folder} holds an annotation made {difference}; name another output")
        digest = says["file"]["sha256"]
    files = [folder / SCORED, folder / f"{BY_LABEL}.json", folder / f"{BY_LABEL}.png"]
    return all(file.is_file() for file in files) and sha256(files[0]) == digest


def read_by_label(folder: Path) -> dict[str, Plain]:
    """The table by label of a finished annotation; DataError if it cannot be read."""
    path = folder / f"{BY_LABEL}.json"
    with as_written(path, "a table by label", _AGAIN):
        return read_json(path)


def _write_json(path: Path, data: object) -> None:
    publish(path, to_json(data).encode(), replace=True)
