"""The cosines of an annotation, a file a block, and the scored rows that are made of them."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from embedrun import plot
from embedrun.blocks import Shard
from embedrun.console import say
from embedrun.curation.teachers import Encode, average, similarities
from embedrun.dataset.nli_scored import Merged, by_label
from embedrun.errors import DataError
from embedrun.experiment.data import skip_warning, skipped_in, write_skipped
from embedrun.files import Plain, packed, publish, sha256, to_json, to_json_line, to_json_lines, whole_file
from embedrun.rows import Rows

SCORED = "nli_scored.jsonl.gz"
PROVENANCE = "provenance.json"
BY_LABEL = "scores_by_label"  # .json and .png
_DECIMALS = 7  # a cosine of float32 vectors carries no more


class Parts:
    """The blocks that are done: files of cosines, ``(rows, teachers)``, in `parts/` of the output.

    Each is whole or absent. Their names tell the settings, so that those of another annotation never count.
    """

    def __init__(self, output: Path, rows: Rows, settings: Plain) -> None:
        self.output, self.rows, self.settings = output, rows, settings
        self.count = -(-len(rows) // settings["block_rows"])
        self._mark = hashlib.sha256(to_json_line(settings)).hexdigest()[:12]

    def path(self, number: int) -> Path:
        """The file of a block."""
        return self.output / "parts" / f"part-{number:05}-{self._mark}.npy"

    def texts(self, number: int) -> tuple[Sequence[str], Sequence[str]]:
        """First and second texts of a block, which depends on the rows and `block_rows` alone."""
        size = self.settings["block_rows"]
        block = slice(number * size, (number + 1) * size)
        return self.rows.texts["left"][block], self.rows.texts["right"][block]

    def missing(self, shard: Shard = Shard(0, 1)) -> list[int]:  # noqa: B008 - it is frozen
        """The blocks of a shard that are still to do."""
        return [number for number in shard.of(self.count) if not self.path(number).is_file()]

    def score(self, numbers: Sequence[int], teachers: Sequence[Encode]) -> Iterator[int]:
        """Score blocks and write each as soon as it is done; yields the number of rows of each."""
        (self.output / "parts").mkdir(exist_ok=True)
        for number in numbers:
            cosines = similarities(*self.texts(number), teachers)  # (rows, teachers)
            with whole_file(self.path(number)) as aside, aside.open("wb") as file:
                np.save(file, cosines)
            yield len(cosines)

    def read(self) -> np.ndarray:
        """All cosines, ``(rows, teachers)``.

        Raises:
            DataError: if a part is missing or damaged.
        """
        parts = []
        for path in map(self.path, range(self.count)):
            try:
                parts.append(np.load(path, allow_pickle=False))
            except (OSError, EOFError, ValueError) as fault:
                raise DataError(
                    f"{path}: cannot be read ({fault}); remove it, and the same command makes it again"
                ) from fault
        cosines = np.concatenate(parts)
        if cosines.shape != (len(self.rows), len(self.settings["teachers"])):
            raise DataError(f"{self.output / 'parts'}: does not fit the rows; remove it and rerun")
        return cosines


def merge(parts: Parts) -> None:
    """Write the scored rows, the table and the plot by label, and last the provenance, which says complete.

    Raises:
        DataError: if a part is missing or damaged.
    """
    rows, cosines = parts.rows, parts.read()
    label = rows.targets["label"]
    columns = {
        "text1": rows.texts["left"],
        "text2": rows.texts["right"],
        "label": label.tolist(),
        "score": np.round(average(cosines), _DECIMALS).tolist(),
    }
    for place, column in enumerate(cosines.T, 1):
        columns[f"score_{place}"] = np.round(column, _DECIMALS).tolist()
    lines = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    publish(parts.output / SCORED, packed(to_json_lines(lines)), replace=True)
    groups = Merged(label, np.array(columns["score"])).groups()
    publish(parts.output / f"{BY_LABEL}.json", to_json(by_label(groups)).encode(), replace=True)
    with whole_file(parts.output / f"{BY_LABEL}.png") as aside:
        plot.histogram(groups, "mean cosine of the teachers", "Scores by label", aside)
    provenance = {
        **parts.settings,
        "score": "mean over the teachers of the cosine of the two texts' vectors (RAOE, Eq. 4)",
        "labels": {name: len(scores) for name, scores in groups.items()},
        "file": {"path": SCORED, "rows": len(rows), "sha256": sha256(parts.output / SCORED)},
    }
    publish(parts.output / PROVENANCE, to_json(provenance).encode(), replace=True)


def list_skipped(rows: Rows, output: Path) -> None:
    """Record and report the faulty rows that the data set left out."""
    skipped = skipped_in([rows])
    write_skipped(skipped, output)
    if warning := skip_warning(skipped):
        say(f"warning: {warning}")
