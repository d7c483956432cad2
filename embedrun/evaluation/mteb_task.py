"""One task of mteb: selected, adapted, scored."""

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedrun.config import nearest
from embedrun.evaluation.mteb_data import isolated, load, package, unavailable
from embedrun.evaluation.scores import Encode, Progress, Scores, Source
from embedrun.files import Plain
from embedrun.rows import Rows


@dataclass(frozen=True)
class Choice:
    """One task, named as mteb spells it, and what of it is scored.

    Args:
        category: its type there: Classification, Clustering, STS ...
        metric: that its score is.
        subsets: of its data set, languages as a rule.
        parts: the tasks that it is the mean of, as CQADupstackRetrieval of 12 forums; else empty.
    """

    name: str
    category: str
    metric: str
    splits: tuple[str, ...]
    subsets: tuple[str, ...]
    parts: tuple["Choice", ...] = ()

    @property
    def key(self) -> str:
        """The result key of its score."""
        return f"mteb/{self.name}/{self.metric}"

    def task(self) -> Any:
        """A new mteb task; must be called within `isolated`."""
        return package().get_task(self.name, eval_splits=list(self.splits), hf_subsets=list(self.subsets))


def by_name(
    names: Sequence[str], splits: Sequence[str] | None, languages: Sequence[str] | None
) -> list[Choice]:
    """The named tasks, each once.

    Args:
        names: as mteb spells them.
        splits: of every data set; None for ``test`` where there is one, else for all that mteb scores.
        languages: ISO 639-3 codes (``eng``); None for all that a task has.

    Raises:
        ValueError: with every unknown name, split and language.
    """
    mteb = package()
    known = {kind.metadata.name for kind in _kinds(mteb)}
    chosen, faults = [], []
    with isolated():
        for name in dict.fromkeys(names):
            if name not in known:
                faults.append(f"no task {name!r}{nearest(name, known)}")
                continue
            own = list(mteb.get_task(name).metadata.eval_splits)
            wanted = list(splits) if splits else ["test"] if "test" in own else own
            if missing := [split for split in wanted if split not in own]:
                faults.append(f"{name} has no split {', '.join(missing)} (it has: {', '.join(own)})")
                continue
            try:
                task = mteb.get_task(name, eval_splits=wanted, languages=languages)
            except ValueError as fault:
                faults.append(f"{name} has nothing in the languages {', '.join(languages or [])} ({fault})")
                continue
            chosen.append(task)
        return _choices(chosen, faults)


def by_benchmark(name: str) -> tuple[str, list[Choice]]:
    """The full name of a benchmark, and its tasks in its order; the name may be one of its aliases in mteb.

    Raises:
        ValueError: if there is none of that name, or it holds what embedrun cannot score.
    """
    mteb = package()
    with isolated():
        try:
            found = mteb.get_benchmark(name)
        except KeyError:
            known = [one.name for one in mteb.get_benchmarks()]
            raise ValueError(f"Mteb: no benchmark {name!r}{nearest(name, known)}") from None
        return found.name, _choices(list(found.tasks), [])


def _kinds(mteb: Any) -> list[Any]:
    """Every task class that mteb has."""
    return [
        kind
        for kind in vars(mteb.tasks).values()
        if isinstance(kind, type) and issubclass(kind, mteb.AbsTask)
    ]


def _choices(tasks: Sequence[Any], faults: list[str]) -> list[Choice]:
    chosen = [_choice(task) for task in tasks]
    faults = faults + [
        f"{task.metadata.name} reads {' and '.join(task.metadata.modalities)}, and embedrun reads text only"
        for task in tasks
        if list(task.metadata.modalities) != ["text"]
    ]
    if len({one.name for one in chosen}) < len(chosen):
        faults.append("a task is in it more than once")
    if faults:
        raise ValueError(f"Mteb: {'; '.join(faults)}")
    return chosen


def _choice(task: Any) -> Choice:
    return Choice(
        name=task.metadata.name,
        category=task.metadata.type,
        metric=task.metadata.main_score,
        splits=tuple(task.eval_splits),
        subsets=tuple(task.hf_subsets),
        parts=tuple(map(_choice, task.metadata.tasks)) if task.is_aggregate else (),
    )


KINDS = ("query", "document")  # of texts, where a task tells them apart
# Texts encoded at once: enough for sorting by length to pay, few enough for a corpus of millions.
GROUP = 8192
_TEXT = "{text}"


class NonFiniteError(ValueError):
    """A vector holds NaN or infinity, for which mteb's tasks have no score."""


def prompt_for(
    prompts: Mapping[str, str], names: Sequence[str], category: str, kind: str | None
) -> str | None:
    """The prompt of a text: the most specific one that is given, in the order of mteb.

    `prompts` are by task, category or kind of text; or by the first or second with ``-query`` or
    ``-document`` appended. `names` are those of the task and of what it is a part of, the most specific
    first. `kind` is None where the task does not tell them apart.
    """
    ends = ("",) if kind is None else (f"-{kind}", "")
    steps = [name + end for name in (*names, category) for end in ends]
    steps += [] if kind is None else [kind]
    return next((prompts[step] for step in steps if step in prompts), None)


def filled(prompt: str | None, text: str) -> str:
    """The text in its prompt: in place of ``{text}``, or after a prompt without it."""
    if prompt is None:
        return text
    return prompt.replace(_TEXT, text) if _TEXT in prompt else prompt + text


class EncodeAdapter:
    """An `encode` callable with the methods of mteb's encoder protocol; texts are compared by cosine.

    Args:
        prompts: as `prompt_for` takes them; a prompt of the model's own is put around it by `encode`.
        part_of: the name of the task that the scored ones are parts of.

    Attributes:
        used: the prompts that were used, by kind of text (``text`` where a task does not tell them apart).
    """

    def __init__(
        self, encode: Encode, prompts: Mapping[str, str] | None = None, part_of: str | None = None
    ) -> None:
        self._encode, self._prompts = encode, prompts or {}
        self._part_of = () if part_of is None else (part_of,)
        self._dim = 0
        self.used: dict[str, str | None] = {}

    @property
    def mteb_model_meta(self) -> Any:
        """What mteb is told of the model: nothing that could change a score."""
        from mteb.models import ModelMeta

        return ModelMeta.create_empty({"name": "embedrun/encoder", "revision": "none"})

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: object = None,
        **_: object,
    ) -> np.ndarray:
        """Vectors of texts, in order, float32, ``(texts, dim)``.

        `inputs` is a DataLoader whose batches have the texts under ``text``. `prompt_type` is an enumeration
        with the values ``query`` and ``document``; None where the task does not tell them apart. Split and
        subset are ignored, as all are encoded alike.

        Raises:
            NonFiniteError: if a vector is not finite.
        """
        kind = None if prompt_type is None else str(getattr(prompt_type, "value", prompt_type))
        names = (task_metadata.name, *self._part_of)
        prompt = prompt_for(self._prompts, names, task_metadata.type, kind)
        self.used[kind or "text"] = prompt
        vectors, start = np.empty((0, self._dim), dtype=np.float32), 0  # (texts, dim)
        for group in _groups(inputs):
            found = self._encode([filled(prompt, text) for text in group])  # (group, dim)
            if not torch.isfinite(found).all():
                raise NonFiniteError(f"a vector of {task_metadata.name} is not finite")
            if start == 0:
                self._dim = found.shape[1]
                vectors = np.empty((len(inputs.dataset), self._dim), dtype=np.float32)  # (texts, dim)
            vectors[start : start + len(group)] = found.numpy()
            start += len(group)
        return vectors

    def similarity(self, embeddings1: object, embeddings2: object) -> Tensor:
        """Cosine of every two, ``(first, second)``; 0 where a vector is zero.

        Takes arrays or tensors, ``(first, dim)`` or ``(dim,)`` and ``(second, dim)`` or ``(dim,)``.
        """
        return _unit(embeddings1) @ _unit(embeddings2).T

    def similarity_pairwise(self, embeddings1: object, embeddings2: object) -> Tensor:
        """Cosine of each pair, ``(pairs,)``; arguments as in `similarity`, both of one length."""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(dim=-1)


def _unit(embeddings: object) -> Tensor:
    return normalize(torch.atleast_2d(torch.as_tensor(embeddings)).float(), dim=-1)  # (texts, dim)


def _groups(inputs: Iterable[Mapping[str, Sequence[str]]]) -> Iterator[list[str]]:
    """The texts of all batches, `GROUP` at a time."""
    waiting: list[str] = []
    for batch in inputs:
        waiting += batch["text"]
        while len(waiting) >= GROUP:
            yield waiting[:GROUP]
            waiting = waiting[GROUP:]
    if waiting:
        yield waiting


_BATCH = 1024  # texts that mteb passes at once; they are regrouped, so this decides nothing


class OneTask:
    """Score one task of the mteb package; `folder` and `prompts` as in `Mteb`."""

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
            DataError: if its data is missing or cannot be read.
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
    scores: Mapping[str, Sequence[Plain]],
) -> dict[str, dict[str, dict[str, float | None]]]:
    """The numbers that mteb gives, by split, subset and metric; None for one that is not finite.

    A retrieval task's hundred metrics of abstention (whether a score tells when not to answer) are left out.
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
