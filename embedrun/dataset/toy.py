"""Toy: graded sentence pairs and NLI triples from a small grammar, made on the spot."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

import numpy as np

from embedrun.dataset.toy_pairs import Statement, draw_pair, draw_triple, label, score, sentence
from embedrun.rows import FORMS, Rows
from embedrun.store import Store

Statements = tuple[Statement, ...]  # of one row, in view order
Texts = tuple[str, ...]

MOST = 100_000  # rows of a split, made in seconds


class Toy:
    """Who does what to whom: made-up pairs whose similarity hangs on word order, voice and synonyms.

    Needs no file. A pair has a `score` from 0 to 5, by the slots that its two scenes share, and a `label`:
    does the right text follow from the left one. A bag of words gets the test split about 40 Spearman x 100.
    Every text is in one split alone, while words are shared: from about 1,000 training rows on, each word of
    the other splits is in the training texts.

    The rows depend on the arguments alone; those of test and dev not on `train_rows` nor on `form`.

    Args:
        form: of the training rows; dev and test rows are pairs in any case. `triplet` is a text, one that
            follows from it and one that contradicts it, without targets.
        train_rows: number of training rows, 1 to 100,000.
        dev_rows: number of dev pairs, likewise.
        test_rows: number of test pairs, likewise.
        seed: of everything drawn, >= 0.

    Raises:
        ValueError: if a number is out of its range, or the form is not among those above.
    """

    name = "toy"
    splits = ("train", "dev", "test")
    graded = ("dev", "test")  # pairs with a score, also where the training rows are triplets

    def __init__(
        self,
        *,
        form: Literal["pair", "triplet"] = "pair",
        train_rows: int = 6000,
        dev_rows: int = 500,
        test_rows: int = 1000,
        seed: int = 0,
    ) -> None:
        if form not in ("pair", "triplet"):
            raise ValueError(f"Toy: form must be pair or triplet, got {form!r}")
        # The order matters: a split draws around the texts of those before it, and so depends on them.
        self._sizes = {"test": test_rows, "dev": dev_rows, "train": train_rows}
        for split, rows in self._sizes.items():
            if not 0 < rows <= MOST:
                raise ValueError(f"Toy: {split}_rows must be from 1 to {MOST}, got {rows}")
        if seed < 0:
            raise ValueError(f"Toy: seed must be >= 0, got {seed}")
        self.form = form
        self.targets = ("score", "label") if form == "pair" else ()
        self._seed = seed

    @property
    def made(self) -> Mapping[str, int]:
        """How many rows each split has, known before they are made."""
        return self._sizes

    def problems(self, split: str, store: Store | None = None) -> list[str]:
        """Never any: the rows are generated."""
        return []

    def read(self, split: str, store: Store | None = None) -> Rows:
        """The rows of the split, generated anew."""
        if split not in self.splits:
            raise ValueError(f"Toy: no split {split!r} (there are: {', '.join(self.splits)})")
        form = self.form if split == "train" else "pair"
        needed = list(self._sizes)[: list(self._sizes).index(split) + 1]
        statements, texts = _drawn(self._seed, tuple(self._sizes[one] for one in needed), form)
        targets = {}
        if form == "pair":
            targets["score"] = np.array([score(left, right) for left, right in statements], np.float64)
            targets["label"] = np.array(
                [label(left.scene, right.scene) for left, right in statements], np.int64
            )
        columns = {view: [row[index] for row in texts] for index, view in enumerate(FORMS[form])}
        return Rows(name=self.name, split=split, form=form, texts=columns, targets=targets)


@lru_cache(maxsize=4)  # a command reads every split, and each after the one before it
def _drawn(seed: int, sizes: tuple[int, ...], form: str) -> tuple[list[Statements], list[Texts]]:
    """Statements and texts of the last split of these sizes; those before it are pairs."""
    taken: set[str] = set()  # texts of the splits before
    for count in range(1, len(sizes)):
        _, texts = _drawn(seed, sizes[:count], "pair")
        taken.update(text for row in texts for text in row)
    # PCG64 by name: what numpy.random.default_rng stands for may change.
    own = np.random.SeedSequence(seed).spawn(len(sizes))[-1]
    rng = np.random.Generator(np.random.PCG64(own))
    return _draw(rng, draw_triple if form == "triplet" else draw_pair, sizes[-1], taken)


def _draw(
    rng: np.random.Generator,
    draw: Callable[[np.random.Generator], Statements],
    rows: int,
    taken: set[str],
) -> tuple[list[Statements], list[Texts]]:
    """Statements and texts of each row; the texts of a row differ, and none is taken."""
    statements: list[Statements] = []
    texts: list[Texts] = []
    while len(texts) < rows:
        drawn = draw(rng)
        said = tuple(sentence(statement) for statement in drawn)
        if len(set(said)) == len(said) and taken.isdisjoint(said):
            statements.append(drawn)
            texts.append(said)
    return statements, texts
