"""Evaluation wired up: rows from the store, vectors from an encoder, files in the run directory."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch

from embedrun import family
from embedrun.commands.kept import Kept
from embedrun.commands.readable import unreadable as unreadable  # beside splits_of, which it takes
from embedrun.config import EvaluationConfig
from embedrun.console import Progress
from embedrun.encoder import Encoder
from embedrun.evaluation.clean import scores_by_row
from embedrun.evaluation.one_pass import score_all
from embedrun.evaluation.source import Scores, Source
from embedrun.rows import Rows
from embedrun.store import Store


def dataset_of(source: Source, own: Any) -> Any:
    """The data set that a source names, or the run's own."""
    return own if source.dataset is None else family.find("dataset", source.dataset)(**source.options)


@dataclass(frozen=True)
class Scorer:
    """Scores an encoder with the tasks of one run; reads their rows once.

    Args:
        tasks: by name.
        rows: of each task, by its own names for its sources.
        batch_tokens: padded tokens a forward pass, at most.
        precision: of the forward pass.
        clean: of the tasks to score without some rows too, by task and source: true where a row is kept.
    """

    tasks: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Rows]]
    batch_tokens: int
    precision: Literal["fp32", "bf16"] = "fp32"
    clean: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def read(cls, tasks: Mapping[str, Any], own: Any, store: Store, evaluation: EvaluationConfig) -> "Scorer":
        """Read what the tasks score.

        Args:
            tasks: by name.
            own: the run's own data set, or None.
            store: where the others are.
            evaluation: how sentences are encoded.
        """
        rows = {
            name: {
                key: dataset_of(source, own).read(source.split, store)
                for key, source in task.sources().items()
            }
            for name, task in tasks.items()
        }
        return cls(tasks, rows, evaluation.batch_tokens, evaluation.precision)

    def without(self, clean: Mapping[str, Mapping[str, np.ndarray]]) -> "Scorer":
        """The same with a second score for each task that scores every row by itself.

        Args:
            clean: of these tasks and maybe others, by task and source: true where a row is kept.
        """
        kept = {name: clean[name] for name, task in self.tasks.items() if scores_by_row(task)}
        return replace(self, clean=kept)

    def score(
        self,
        encoder: Encoder,
        label: str,
        *,
        brief: bool = False,
        kept: Kept | None = None,
    ) -> dict[str, Scores]:
        """The scores of every task, with one encoding pass over the distinct sentences.

        Args:
            encoder: its random state and mode are left as they are.
            label: what the progress bar says.
            brief: it goes away at its end.
            kept: what is done already, and where the rest is kept as it comes.
        """

        def encode(texts: list[str]) -> torch.Tensor:
            with Progress(label, len(texts), "sentences", brief=brief) as bar:
                vectors = encoder.encode(
                    texts,
                    batch_tokens=self.batch_tokens,
                    precision=self.precision,
                    scaled=False,
                    progress=lambda done, _: bar.reach(done),
                )
            return torch.from_numpy(vectors)  # (texts, dim)

        if kept is None:
            return score_all(self.tasks, self.rows, encode, self.clean, watch=_watch, scale=encoder.scale)
        return score_all(
            self.tasks,
            self.rows,
            encode,
            self.clean,
            done=kept.load(),
            keep=kept.save,
            watch=_watch,
            scale=encoder.scale,
        )

    def counts(self) -> dict[str, int]:
        """Number of rows of each source, by task and source, and of its clean ones."""
        counts = {}
        for name, own in self.rows.items():
            for key, rows in own.items():
                counts[f"{name}/{key}"] = len(rows)
                if name in self.clean:
                    counts[f"{name}/{key}/clean"] = int(self.clean[name][key].sum())
        return counts

    def first_sentences(self, count: int) -> list[str]:
        """The first sentences of the rows, at most `count`; a fixed one where the tasks bring their own."""
        every = [text for rows in self.every_rows()[:1] for text in rows.sentences()[:count]]
        return every or ["A sentence."]

    def fingerprints(self) -> dict[str, str]:
        """What was read, by data set and split."""
        return fingerprints_of(self.every_rows())

    def every_rows(self) -> list[Rows]:
        """The rows of every source of every task."""
        return [rows for own in self.rows.values() for rows in own.values()]


def fingerprints_of(every: Sequence[Rows]) -> dict[str, str]:
    """SHA-256 of rows, by data set and split; of two under one name the second has a number behind it."""
    found: dict[str, str] = {}
    for rows in every:
        name, fingerprint = f"{rows.name}/{rows.split}", rows.fingerprint()
        while found.get(name, fingerprint) != fingerprint:
            name += ".2"  # MRPC as pairs with scores, and as SentEval's task
        found[name] = fingerprint
    return found


def splits_of(tasks: Mapping[str, Any], own: Any) -> list[tuple[Any, str]]:
    """Every data set that the tasks score, with its split."""
    sources = [source for task in tasks.values() for source in task.sources().values()]
    return [(dataset_of(source, own), source.split) for source in sources]


def lacking(tasks: Mapping[str, Any]) -> list[str]:
    """What tasks that bring their own rows cannot get hold of."""
    return [text for task in tasks.values() if hasattr(task, "problems") for text in task.problems()]


def flat(scored: Mapping[str, Scores]) -> dict[str, float]:
    """All defined scores by key; an undefined one is left out, and the caller says so."""
    return {key: value for task in scored.values() for key, value in task.scores.items() if value == value}


def notes(scored: Mapping[str, Scores]) -> dict[str, Any]:
    """What else decided the scores, by task; without the tasks that note nothing."""
    return {name: one.notes for name, one in scored.items() if one.notes}


def main_score(scored: Mapping[str, Scores], dev: Mapping[str, float]) -> dict[str, Any]:
    """The one score that stands for a run: that of its first task, else the dev score."""
    scores = flat(scored)
    for task in scored.values():
        return {"name": task.main, "value": scores.get(task.main)}
    name = next(iter(dev), None)
    return {"name": name, "value": dev.get(name) if name and dev[name] == dev[name] else None}


class _Watch:
    """Shows the progress of a piece from the first time that it is told, so that a quick one shows none."""

    def __init__(self, label: str) -> None:
        self._label, self._bar = label, None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = Progress(self._label, total, "fits")
            self._bar.__enter__()
        self._bar.reach(done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)


def _watch(label: str) -> contextlib.closing[_Watch]:
    return contextlib.closing(_Watch(label))
