"""Tasks of the mteb package, and the averages of its benchmarks."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from embedrun.config import nearest
from embedrun.errors import DataError
from embedrun.evaluation.mteb_task import KINDS, Choice, OneTask, by_benchmark, by_name
from embedrun.evaluation.scores import Encode, Progress, Scores, Source, joined
from embedrun.rows import Rows


def averages(scores: Mapping[str, float], category: Mapping[str, str]) -> dict[str, float]:
    """The mean score of each category and of the whole benchmark, by result key.

    `mteb/avg.<category>/score` for each category in alphabetical order, as the table has them, and then
    `mteb/avg/score`; nothing where a task of `category`, which has all of the benchmark, has no score. The
    mean of the benchmark is that over its tasks, not over its categories: Classification counts 12 times and
    Summarization once in `MTEB(eng, v1)`, whose 56 tasks are those of the paper. A mean is NaN where one of
    its scores is.
    """
    if any(task not in scores for task in category):
        return {}
    found = {}
    for name in sorted(set(category.values())):
        found[f"mteb/avg.{name}/score"] = _mean(
            [scores[task] for task, own in category.items() if own == name]
        )
    return found | {"mteb/avg/score": _mean([scores[task] for task in category])}


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


class Mteb:
    """Score chosen tasks of the mteb package, or one of its benchmarks.

    Keys are `mteb/<task>/<main metric of the task>`, × 100; of a benchmark also `mteb/avg.<category>/score`
    and `mteb/avg/score`, the mean over its tasks. A task with several splits or subsets scores their mean.
    Chosen tasks have no average, as it would be comparable with nothing. `MTEB(eng, v1)` is the benchmark of
    RAOE's Tables 3 and 11; its CQADupstackRetrieval counts as one task, the mean of 12.

    Needs the extra `mteb`. That package reads the data and computes every score. The notes hold its version,
    the revision of each data set, the prompts, and all metrics of every task on the package's own scale.

    Args:
        tasks: names as mteb spells them.
        benchmark: name as mteb spells it; either this or `tasks`.
        folder: copies of the data sets, each in a folder named like its task and in the layout of the hub, so
            that nothing is downloaded; null for the cache of datasets, else the hub.
        prompts: by task, category (`STS`) or kind of text (`query`, `document`), the first that is given; a
            task or category with `-query` or `-document` appended goes before the bare one. A prompt with
            `{text}` is a template, any other is put before the text.
        splits: of `tasks`; null for `test` where a task has it, else all that mteb scores.
        languages: of `tasks`, ISO 639-3 (`eng`); null for all that a task has.

    Raises:
        ValueError: if the package is missing, or does not know a name.
    """

    def __init__(
        self,
        *,
        tasks: list[str] | None = None,
        benchmark: str | None = None,
        folder: str | None = None,
        prompts: dict[str, str] | None = None,
        splits: list[str] | None = None,
        languages: list[str] | None = None,
    ) -> None:
        if bool(tasks) == bool(benchmark):
            raise ValueError(
                "Mteb: give either tasks, a list of names, or benchmark, such as 'MTEB(eng, v1)'"
            )
        if benchmark and (splits or languages):
            raise ValueError(
                "Mteb: a benchmark has splits and languages of its own; leave both null, or give tasks"
            )
        self.benchmark, self.folder = benchmark, None if folder is None else Path(folder)
        if benchmark:
            self.benchmark, self._choices = by_benchmark(benchmark)
        else:
            self._choices = by_name(tasks or [], splits, languages)
        self.prompts = dict(prompts or {})
        _check_prompts(self.prompts, self._choices)

    def sources(self) -> dict[str, Source]:
        """None: the package reads its own data."""
        return {}

    def problems(self) -> list[str]:
        """Why the data is not there, as far as can be known without reading it."""
        return [problem for part in self.parts().values() for problem in part.problems()]

    def parts(self) -> dict[str, OneTask]:
        """One for each task."""
        return {one.name: OneTask(one, self.folder, self.prompts) for one in self._choices}

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Score every task.

        `rows` is empty; `encode` is called with up to 8,192 texts at a time; `progress` is not called, as
        encoding, which takes the time, shows its own.

        Raises:
            DataError: if data is missing or cannot be read.
        """
        if problems := self.problems():
            raise DataError(problems)
        found = {name: part.score(rows, encode) for name, part in self.parts().items()}
        return joined(found, self.total(found))

    def total(self, found: Mapping[str, Scores]) -> Scores:
        """The averages of a benchmark, what decided all scores, and the main score."""
        scores = {}
        if self.benchmark:
            of_task = {
                one.name: found[one.name].scores[one.key] for one in self._choices if one.name in found
            }
            scores = averages(of_task, {one.name: one.category for one in self._choices})
        main = "mteb/avg/score" if "mteb/avg/score" in scores else self._choices[0].key
        return Scores(scores, main, notes={"benchmark": self.benchmark, "prompts": self.prompts})


def _check_prompts(prompts: Mapping[str, str], choices: Sequence[Choice]) -> None:
    alone = [one.category for one in choices]
    alone += [own.name for one in choices for own in (one, *one.parts)]
    known = list(dict.fromkeys([*KINDS, *alone]))
    accepted = {*known, *(f"{name}-{kind}" for name in alone for kind in KINDS)}
    faults = [
        f"prompts: {key!r} is neither a chosen task, nor the category of one, nor {' or '.join(KINDS)}"
        f"{nearest(key, known)}"
        for key in prompts
        if key not in accepted
    ]
    if faults:
        raise ValueError(f"Mteb: {'; '.join(faults)}")
