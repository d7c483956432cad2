"""Toy: graded sentence pairs and NLI triples from a small grammar, made on the spot."""

from typing import Literal

import numpy as np

from embedrun.dataset.toy_answer import label, score
from embedrun.dataset.toy_pairs import draw_pair, draw_triple
from embedrun.rows import FORMS, Rows


class Toy:
    def __init__(
        self,
        *,
        form: Literal["pair", "triplet"] = "pair",
        train_rows: int = 6000,
        dev_rows: int = 500,
        test_rows: int = 1000,
        seed: int = 0,
    ) -> None:
        self.form = form
        self.sizes = {"test": test_rows, "dev": dev_rows, "train": train_rows}
        self.seed = seed
        self.targets = ("score", "label") if form == "pair" else ()
        self.splits = ("train", "dev", "test")

    def problems(self, split, store=None):
        return []

    def read(self, split, store=None):
        taken = set()
        for name, seed in zip(self.sizes, np.random.SeedSequence(self.seed).spawn(3)):
            rng = np.random.Generator(np.random.PCG64(seed))
            form = self.form if name == "train" else "pair"
            draw = draw_pair if form == "pair" else draw_triple
            rows, new = [], []
            while len(rows) < self.sizes[name]:
                group = draw(rng)
                texts = [s.text() for s in group]
                if len(set(texts)) < len(texts) or any(t in taken for t in texts):
                    continue
                rows.append((group, texts))
                new += texts
            taken.update(new)
            if name == split:
                break
        texts = {v: [t[i] for _, t in rows] for i, v in enumerate(FORMS[form])}
        targets = {}
        if form == "pair":
            targets = {
                "score": np.array([score(*g) for g, _ in rows]),
                "label": np.array([label(g[0].scene, g[1].scene) for g, _ in rows], dtype=np.int64),
            }
        return Rows("toy", split, form, texts, targets)
