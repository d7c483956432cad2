"""The transfer tasks of SentEval: how well a linear classifier does on frozen sentence vectors."""

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Literal

import numpy as np

from embedrun.errors import install_extra
from embedrun.evaluation.classifier import Method, examples, validate
from embedrun.evaluation.classifier.convex import Convex
from embedrun.evaluation.intervals import interval, mean_draws
from embedrun.evaluation.scores import Encode, Progress, Scores, Source, joined, unheard, with_only
from embedrun.rows import Rows

TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
TaskName = Literal["mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"]
Protocol = Literal["paper", "fast"]
_SPLITS = {"sst2": ("train", "dev", "test"), "trec": ("train", "test"), "mrpc": ("train", "test")}


class Senteval:
    """Train classifiers on frozen sentence vectors and score them.

    Source: Conneau and Kiela 2018 (SentEval), https://aclanthology.org/L18-1269.

    `paper` is the protocol of published results (SentEval's default, `--mode test` of SimCSE): a linear layer
    and cross-entropy, Adam in minibatches of 64 that are drawn anew in every epoch, the accuracy on held-out
    rows after every fourth, and early stopping at the sixth such accuracy in all that is no better, or after
    204 epochs; the best weights are kept. Weight decay is 1e-5, 1e-4, 1e-3 or 1e-2, the first with the best
    accuracy.

    - MR, CR, SUBJ, MPQA: ten outer folds; within the training rows of each, ten inner folds choose the decay,
      and one more classifier, which holds out a twentieth, is scored on the outer fold.
    - TREC, MRPC: ten folds of the training rows choose; one more classifier is scored on the test rows.
    - SST2: the dev rows choose and stop; that classifier is scored on the test rows.

    `fast` has the same folds and the toolkit's convex classifier, logistic regression solved to its optimum:
    for use during research; no published score is of this kind.

    A model that scales its vectors to length 1 is scored by the vectors before scaling, as SentEval was run
    on pooled vectors. The length matters in `paper`, whose training ends early: the pooled vectors of
    all-MiniLM-L6-v2 get 82.2 on CR, the same at unit length 80.6.

    Accuracies are rounded to two decimals where SentEval rounds them. Not included: SentEval also trains on
    STS-B and SICK, which are scored by cosine in `sts`.

    Keys are `senteval/<task>/accuracy_<protocol>`; `senteval_dev/<task>/accuracy_<protocol>`, on the held-out
    training rows by which the decay was chosen; and `senteval/mrpc/f1_<protocol>` of the paraphrases.
    `senteval/avg/accuracy_<protocol>` is the average where all seven tasks are scored. With several seeds
    each is the mean over them, `..._seed<seed>` the accuracy of one and `..._std` the sample standard
    deviation of these. All are undefined where a vector is not finite. The 95 % intervals are those of the
    accuracy, by resampling the scored rows; of the average, with one seed, those of every task.

    Args:
        tasks: which of the seven.
        protocol: `paper`, that of published results, or `fast`, for use during research.
        seeds: of the classifiers' weights and minibatches, and of the folds of TREC and MRPC; 1111 in
            published scores. `fast` ignores them.
    """

    unscaled = True

    def __init__(
        self,
        *,
        tasks: list[TaskName] = list(TASKS),  # noqa: B006 - never changed
        protocol: Protocol = "paper",
        seeds: list[int] = [1111],  # noqa: B006 - never changed
    ) -> None:
        if not tasks:
            raise ValueError(f"Senteval: tasks must name at least one of {', '.join(TASKS)}; got {tasks}")
        if protocol == "paper" and find_spec("numba") is None:
            raise ValueError(
                f"Senteval: protocol paper needs numba; {install_extra('senteval')}, or set protocol=fast"
            )
        if not seeds or not all(0 <= seed < 2**32 for seed in seeds):
            raise ValueError(f"Senteval: seeds must be at least one number from 0 to 2^32 - 1, got {seeds}")
        if protocol == "fast" and len(set(seeds)) > 1:
            raise ValueError(
                f"Senteval: protocol=fast finds the same optimum for every seed, got {seeds}; "
                "give one, or use protocol=paper"
            )
        self.tasks, self.seeds = list(dict.fromkeys(tasks)), list(dict.fromkeys(seeds))
        self.protocol: Protocol = protocol
        self._metric = f"accuracy_{protocol}"

    def _classifier(self, seed: int) -> Method:
        if self.protocol == "fast":
            return Convex()
        from embedrun.evaluation.classifier.adam import Adam

        return Adam(seed)

    def sources(self) -> dict[str, Source]:
        """Every split of each task, as `<task>` or `<task>_<split>`."""
        return {
            _key(task, split): Source("senteval", split, {"task": task})
            for task in self.tasks
            for split in _splits(task)
        }

    def parts(self) -> dict[str, "Senteval"]:
        """One task each."""
        return {task: with_only(self, tasks=[task]) for task in self.tasks}

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Scores, intervals, and the class that each scored row was given.

        `rows` are texts or pairs with a `category`. `progress` is called with the classifiers of a task that
        are trained and all of them.
        """
        parts = {task: self._task(task, rows, encode, progress) for task in self.tasks}
        return joined(parts, self.total(parts))

    def total(self, parts: Mapping[str, Scores]) -> Scores:
        """The average over the seven tasks, if they are all there, and the main score.

        The interval of the average needs the predictions.
        """
        if set(self.tasks) != set(TASKS):
            return Scores({}, f"senteval/{self.tasks[0]}/{self._metric}")
        main = f"senteval/avg/{self._metric}"
        values = [
            float(np.mean([parts[task].scores[f"senteval/{task}/{metric}"] for task in TASKS]))
            for metric in self._by_seed()
        ]
        files = {task: parts[task].predictions.get(self._file(task), {}) for task in TASKS}
        intervals = {}
        if len(self.seeds) == 1 and all(files.values()):
            draws = [_draws(task, np.equal(file["gold"], file["predicted"])) for task, file in files.items()]
            intervals[main] = interval(np.mean(draws, axis=0))
        return Scores(
            self._summary("senteval/avg", values), main, intervals=intervals, shown=self._shown("avg")
        )

    def _task(
        self, task: TaskName, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None
    ) -> Scores:
        splits = [examples(rows[_key(task, split)], encode) for split in _splits(task)]
        main = f"senteval/{task}/{self._metric}"
        if not all(np.isfinite(split.features).all() for split in splits):
            undefined = [math.nan] * len(self.seeds)
            return Scores(self._scores(task, undefined, undefined, undefined), main, shown=self._shown(task))
        outcomes = [
            validate(self._classifier(seed), splits, _counted(progress, index, len(self.seeds)))
            for index, seed in enumerate(self.seeds)
        ]
        scored = splits[-1]
        gold = scored.labels  # (scored rows,)
        scores = self._scores(
            task,
            [outcome.test for outcome in outcomes],
            [outcome.dev for outcome in outcomes],
            [f1(gold, outcome.predicted) for outcome in outcomes],
        )
        right = np.mean([outcome.predicted == gold for outcome in outcomes], axis=0)  # (scored rows,)
        back = np.argsort(scored.order)  # (scored rows,): to the data set's own order
        columns = {"gold": gold[back].tolist(), "predicted": outcomes[0].predicted[back].tolist()}
        chosen = {str(seed): outcome.chosen for seed, outcome in zip(self.seeds, outcomes, strict=True)}
        return Scores(
            scores,
            main,
            {self._file(task): columns},
            {main: interval(_draws(task, right))},
            self._shown(task),
            {"senteval_regularisers": {task: chosen}},
        )

    def _scores(
        self, task: TaskName, test: list[float], dev: list[float], paraphrases: list[float]
    ) -> dict[str, float]:
        scores = self._summary(f"senteval/{task}", test)
        if task == "mrpc":
            scores[f"senteval/mrpc/f1_{self.protocol}"] = float(np.mean(paraphrases))
        scores[f"senteval_dev/{task}/{self._metric}"] = float(np.mean(dev))
        return scores

    def _summary(self, prefix: str, values: list[float]) -> dict[str, float]:
        scores = {f"{prefix}/{self._metric}": float(np.mean(values))}
        if len(values) > 1:
            scores[f"{prefix}/{self._metric}_std"] = float(np.std(values, ddof=1))
            scores |= {f"{prefix}/{name}": value for name, value in zip(self._by_seed(), values, strict=True)}
        return scores

    def _file(self, task: str) -> str:
        return f"senteval_{task}" if self.protocol == "paper" else f"senteval_fast_{task}"

    def _by_seed(self) -> list[str]:
        if len(self.seeds) == 1:
            return [self._metric]
        return [f"{self._metric}_seed{seed}" for seed in self.seeds]

    def _shown(self, task: str) -> tuple[str, ...]:
        several = [f"senteval/{task}/{self._metric}_std"] if len(self.seeds) > 1 else []
        paraphrases = [f"senteval/mrpc/f1_{self.protocol}"] if task == "mrpc" else []
        return (f"senteval/{task}/{self._metric}", *several, *paraphrases)


def f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """F1 of class 1 × 100, to two decimals as SentEval prints it; 0 if no row is correctly given that class.

    Takes two columns of classes, ``(rows,)``.
    """
    hits = int(np.sum((gold == 1) & (predicted == 1)))
    named = int(np.sum(gold == 1) + np.sum(predicted == 1))
    return round(200 * hits / named, 2) if hits else 0.0


def _splits(task: str) -> tuple[str, ...]:
    return _SPLITS.get(task, ("train",))


def _key(task: str, split: str) -> str:
    return f"{task}_{split}" if task in _SPLITS else task


def _counted(progress: Progress | None, index: int, seeds: int) -> Progress:
    if progress is None:
        return unheard
    return lambda done, every: progress(index * every + done, seeds * every)


def _draws(task: str, right: np.ndarray) -> np.ndarray:
    """Accuracy × 100 of resampled rows, ``(draws,)``; no two tasks share their resamples.

    `right` is the share of the seeds that have a row right, ``(scored rows,)``.
    """
    return 100 * mean_draws(right, seed=[0, TASKS.index(task)])
