"""One task of the mteb package, scored by that package."""

import math
import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.evaluation.mteb_adapter import EncodeAdapter, NonFiniteError
from embedrun.evaluation.mteb_choice import Choice
from embedrun.evaluation.mteb_data import load, unavailable
from embedrun.evaluation.mteb_isolation import isolated, package
from embedrun.evaluation.source import Encode, Progress, Scores, Source
from embedrun.rows import Rows

_BATCH = 1024  # texts that mteb hands over at once; they are gathered, so this decides nothing


class OneTask:
    """Score one task of the mteb package.

    Args:
        choice: which.
        folder: as in `Mteb`.
        prompts: as in `Mteb`.
    """

    def __init__(self, choice: Choice, folder: Path | None, prompts: Mapping[str, str]) -> None:
        self.choice, self.folder, self.prompts = choice, folder, prompts

    def sources(self) -> dict[str, Source]:
        """None: the package reads its own data."""
        return {}

    def problems(self) -> list[str]:
        """Why the data is not there, as far as can be known without reading it."""
        with isolated():
            return unavailable([one.task() for one in self._simple()], self.folder)

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """The score of the task, NaN if the vectors are not finite; arguments as in `Mteb`.

        Raises:
            DataError: if its data cannot be had.
        """
        from importlib.metadata import version

        key = self.choice.key
        with isolated():
            try:
                score, said = self._run(encode)
            except NonFiniteError as fault:
                score, said = math.nan, {"undefined": str(fault)}
        about = {"category": self.choice.category, "metric": self.choice.metric, "mteb": version("mteb")}
        return Scores({key: 100 * score}, key, notes={"tasks": {self.choice.name: {**about, **said}}})

    def _simple(self) -> tuple[Choice, ...]:
        """The task, or those that it is the mean of."""
        return self.choice.parts or (self.choice,)

    def _run(self, encode: Encode) -> tuple[float, dict[str, Any]]:
        results, said = [], {}
        for one in self._simple():
            adapter = EncodeAdapter(encode, self.prompts, self.choice.name if self.choice.parts else None)
            task = one.task()
            data = load(task, self.folder)
            try:
                results += (
                    package()
                    .evaluate(
                        adapter,
                        task,
                        co2_tracker=False,
                        cache=None,
                        encode_kwargs={"batch_size": _BATCH, "show_progress_bar": False},
                        show_progress_bar=False,
                    )
                    .task_results
                )
            finally:
                task.unload_data()
            said[one.name] = {**data, "prompts": adapter.used, "metrics": _metrics(results[-1].scores)}
        if not self.choice.parts:
            return float(results[0].get_score()), said[self.choice.name]
        whole = self.choice.task().combine_task_results(results)
        return float(whole.get_score()), {"parts": said}


def _metrics(
    scores: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, dict[str, dict[str, float | None]]]:
    """The numbers that mteb gives, by split, subset and metric; None for one that is not finite.

    Left out are the hundred of a retrieval task that say how well a score tells when to abstain.
    """
    return {
        split: {
            one["hf_subset"]: {
                name: float(value) if math.isfinite(value) else None
                for name, value in one.items()
                if isinstance(value, numbers.Real) and not name.startswith("nauc_")
            }
            for one in subsets
        }
        for split, subsets in scores.items()
    }
