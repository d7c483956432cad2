"""Rows: what every data set gives, whatever file it comes from."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

# The text columns of each form of row, by the view that each of them feeds.
FORMS: dict[str, dict[str, str]] = {
    "pair": {"left": "text1", "right": "text2"},
    "triplet": {"left": "anchor", "right": "positive", "negative": "negative"},
    "text": {"text": "text"},
}


class Masked(Protocol):
    """Two copies of a sentence, the second masked more than the first; they are made anew in every epoch."""

    @property
    def needs_token(self) -> bool:
        """Whether the copies hold a mask token."""
        ...

    def usable(self, text: str) -> bool:
        """Whether the sentence can have such copies."""
        ...

    def copies(self, text: str, mask: str, random: np.random.Generator) -> tuple[str, str]:
        """The two copies; `mask` stands for a hidden word."""
        ...


MASKED = ("masked_once", "masked_twice")  # the views of the two copies


@dataclass(frozen=True)
class Skipped:
    """A faulty row that was left out because the user asked for it.

    Args:
        file: as the user named it, or a shard of the folder that was named.
        line: where the row begins, from 1; of a Parquet file the row.
        column: of the faulty value, as the file calls it; empty where the whole row is meant.
        reason: in words.
    """

    file: str
    line: int
    column: str
    reason: str


@dataclass(frozen=True)
class Rows:
    """The rows of one split of one data set, by column.

    Args:
        name: of the data set, ``"stsb"``.
        split: ``"train"``, ``"dev"`` or ``"test"``.
        form: a key of :data:`FORMS`.
        texts: one list of texts for each view of the form, all of one length.
        targets: typed columns, each ``(rows,)``: ``score`` float64 (higher is more
            similar), ``label`` int64 (0 entailment, 1 neutral, 2 contradiction), ``category`` int64
            (class of a classification task, from 0), ``group`` int64 (number of the thing that several
            texts describe, from 0).
        subset: the part of the data set that each row comes from, or empty.
        skipped: the rows that were left out, in file order; not part of the fingerprint.
        masked: how the masked copies of a text are made, where the losses may ask for them.

    Raises:
        ValueError: if the columns do not fit the form or differ in length.
    """

    name: str
    split: str
    form: str
    texts: dict[str, list[str]]
    targets: dict[str, np.ndarray] = field(default_factory=dict)
    subset: list[str] = field(default_factory=list)
    skipped: tuple[Skipped, ...] = ()
    masked: "Masked | None" = None

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"rows: no form {self.form!r}, only {', '.join(FORMS)}")
        if list(self.texts) != list(FORMS[self.form]):
            raise ValueError(
                f"rows of form {self.form!r} need the views {list(FORMS[self.form])}, got {list(self.texts)}"
            )
        lengths = {len(column) for column in self._columns()}
        if len(lengths) > 1:
            raise ValueError(f"rows: columns of different lengths, {sorted(lengths)}")

    def _columns(self) -> Iterator[list[str] | np.ndarray]:
        yield from self.texts.values()
        yield from self.targets.values()
        if self.subset:
            yield self.subset

    def __len__(self) -> int:
        return len(next(iter(self.texts.values())))

    def drawn(self, fraction: float, seed: int) -> "Rows":
        """A random fraction of the rows, at least one, in their own order.

        `fraction` is above 0 and at most 1; 1 gives these rows themselves. The draw depends on `seed` alone.
        """
        if fraction >= 1:
            return self
        count = max(1, round(len(self) * fraction))
        random = np.random.default_rng([seed, 0x64726177])
        kept = np.sort(random.choice(len(self), count, replace=False))  # (count,)
        return replace(
            self,
            texts={view: [column[place] for place in kept] for view, column in self.texts.items()},
            targets={name: values[kept] for name, values in self.targets.items()},
            subset=[self.subset[place] for place in kept] if self.subset else [],
        )

    def sentences(self) -> list[str]:
        """All texts of all views, in view order, repeats included."""
        return [text for column in self.texts.values() for text in column]

    def fingerprint(self) -> str:
        """SHA-256, in hex, of every column in order: equal for equal rows, wherever they were read from."""
        digest = hashlib.sha256(f"{self.name} {self.split} {self.form}".encode())
        for view, column in self.texts.items():
            digest.update(view.encode())
            digest.update(_framed(column))
        for name, values in self.targets.items():
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        digest.update(_framed(self.subset))
        return digest.hexdigest()


def _framed(texts: list[str]) -> bytes:
    """Texts with the length of each, so that no two different lists give the same bytes."""
    encoded = [text.encode() for text in texts]
    return b"".join(len(part).to_bytes(8, "little") + part for part in encoded)
