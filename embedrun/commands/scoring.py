"""Evaluation wired up: rows from the store, vectors from an encoder, files in the run directory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedrun import family
from embedrun.commands.readable import unreadable as unreadable  # beside splits_of, which it takes
from embedrun.console import Progress, aligned, say
from embedrun.encoder import Encoder
from embedrun.evaluation.clean import SUFFIX, scores_by_row
from embedrun.evaluation.one_pass import score_all
from embedrun.evaluation.source import Scores, Source
from embedrun.rows import Rows
from embedrun.store import Store

# Why a correlation is undefined.
_WHY = "all predictions or all gold scores are equal, or fewer than two rows are left"


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
        clean: of the tasks to score without some rows too, by task and source: true where a row is kept.
    """

    tasks: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Rows]]
    batch_tokens: int
    clean: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def read(cls, tasks: Mapping[str, Any], own: Any, store: Store, batch_tokens: int) -> "Scorer":
        """Read what the tasks score.

        Args:
            tasks: by name.
            own: the run's own data set, or None.
            store: where the others are.
            batch_tokens: padded tokens a forward pass, at most.
        """
        rows = {
            name: {
                key: dataset_of(source, own).read(source.split, store)
                for key, source in task.sources().items()
            }
            for name, task in tasks.items()
        }
        return cls(tasks, rows, batch_tokens)

    def without(self, clean: Mapping[str, Mapping[str, np.ndarray]]) -> "Scorer":
        """The same with a second score for each task that scores every row by itself.

        Args:
            clean: of these tasks and maybe others, by task and source: true where a row is kept.
        """
        kept = {name: clean[name] for name, task in self.tasks.items() if scores_by_row(task)}
        return replace(self, clean=kept)

    def score(self, encoder: Encoder, label: str, *, brief: bool = False) -> dict[str, Scores]:
        """The scores of every task, with one encoding pass over the distinct sentences.

        Args:
            encoder: its random state and mode are left as they are.
            label: what the progress bar says.
            brief: it goes away at its end.
        """

        def encode(texts: list[str]) -> torch.Tensor:
            with Progress(label, len(texts), "sentences", brief=brief) as bar:
                vectors = encoder.encode(
                    texts, batch_tokens=self.batch_tokens, progress=lambda done, _: bar.reach(done)
                )
            return torch.from_numpy(vectors)  # (texts, dim)

        return score_all(self.tasks, self.rows, encode, self.clean)

    def counts(self) -> dict[str, int]:
        """Number of rows of each source, by task and source, and of its clean ones."""
        counts = {}
        for name, own in self.rows.items():
            for key, rows in own.items():
                counts[f"{name}/{key}"] = len(rows)
                if name in self.clean:
                    counts[f"{name}/{key}/clean"] = int(self.clean[name][key].sum())
        return counts

    def fingerprints(self) -> dict[str, str]:
        """What was read, by data set and split."""
        return fingerprints_of(self.every_rows())

    def every_rows(self) -> list[Rows]:
        """The rows of every source of every task."""
        return [rows for own in self.rows.values() for rows in own.values()]


def fingerprints_of(every: Sequence[Rows]) -> dict[str, str]:
    """SHA-256 of rows, by data set and split."""
    return {f"{rows.name}/{rows.split}": rows.fingerprint() for rows in every}


def splits_of(tasks: Mapping[str, Any], own: Any) -> list[tuple[Any, str]]:
    """Every data set that the tasks score, with its split."""
    sources = [source for task in tasks.values() for source in task.sources().values()]
    return [(dataset_of(source, own), source.split) for source in sources]


def flat(scored: Mapping[str, Scores]) -> dict[str, float]:
    """All defined scores by key; an undefined one is left out, and the caller says so."""
    return {key: value for task in scored.values() for key, value in task.scores.items() if value == value}


def undefined(scored: Mapping[str, Scores]) -> list[str]:
    """Keys whose score is undefined."""
    return [key for task in scored.values() for key, value in task.scores.items() if value != value]


def main_score(scored: Mapping[str, Scores], dev: Mapping[str, float]) -> dict[str, Any]:
    """The one score that stands for a run: that of its first task, else the dev score."""
    scores = flat(scored)
    for task in scored.values():
        return {"name": task.main, "value": scores.get(task.main)}
    name = next(iter(dev), None)
    return {"name": name, "value": dev.get(name) if name and dev[name] == dev[name] else None}


def write_predictions(scored: Mapping[str, Scores], folder: Path) -> None:
    """`predictions/<data set>.parquet`: gold and score of every pair."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    for task in scored.values():
        for name, columns in task.predictions.items():
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def plot_predictions(scored: Mapping[str, Scores], folder: Path) -> None:
    """A density and a distribution plot of every scored data set."""
    import numpy as np

    from embedrun import plot

    for task in scored.values():
        for name, columns in task.predictions.items():
            gold, cosine = np.array(columns["gold"]), np.array(columns["score"])
            if len(gold) < 2 or np.ptp(gold) == 0:
                continue
            plot.density(gold, cosine, f"{name}: cosine by gold score", folder / f"{name}_density.png")
            plot.distribution(gold, cosine, f"{name}: cosine and gold score", folder / f"{name}_scores.png")


def table(scores: Mapping[str, float], baseline: Mapping[str, float]) -> str:
    """Scores as a text table, beside those of the untrained model where there are any.

    A score on the clean rows stands there only where it is another than that on all rows.
    """
    whole = {key: scores.get(key.removesuffix(SUFFIX)) for key in scores if key.endswith(SUFFIX)}
    scores = {key: value for key, value in scores.items() if whole.get(key) != value}
    if not baseline:
        return aligned(
            [["score", "value"], *([key, f"{value:.2f}"] for key, value in scores.items())], right=[1]
        )
    lines = [["score", "untrained", "trained", "difference"]]
    for key, value in scores.items():
        before = baseline.get(key)
        both = (
            ["-", f"{value:.2f}", "-"]
            if before is None
            else [f"{before:.2f}", f"{value:.2f}", f"{value - before:+.2f}"]
        )
        lines.append([key, *both])
    return aligned(lines, right=[1, 2, 3])


def report(scored: Mapping[str, Scores], baseline: Mapping[str, float], folder: Path) -> None:
    """Print the scores and where they are; say which are undefined."""
    for name in undefined(scored):
        say(f"warning: {name} is undefined ({_WHY}); it is left out")
    print(f"{table(flat(scored), baseline)}\n\n{folder}")
