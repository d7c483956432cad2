"""Tasks of the mteb package, through its protocol of an encoder, and the averages of its benchmarks."""

import contextlib
import hashlib
import logging
import math
import numbers
import random
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedrun.config import nearest
from embedrun.errors import DISK, OUT_OF_MEMORY, DataError, exit_code, install_extra
from embedrun.evaluation.scores import Encode, Progress, Scores, Source, joined
from embedrun.files import Plain, expanded, sha256
from embedrun.rows import Rows

KINDS = ("query", "document")  # of texts, where a task tells them apart
# Texts encoded at once: enough for sorting by length to pay, few enough for a corpus of millions.
GROUP = 8192
_TEXT = "{text}"  # in a prompt: where the text stands


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Leave random states, torch's thread count, warnings and log levels as they were.

    mteb seeds the generators of Python, NumPy and torch when it is imported, when a task is made and when one
    is scored. It warns of every task that has a newer version, which a benchmark of a fixed version always
    has, and scikit-learn of every classifier that does not converge in its fixed number of iterations.
    Standard output holds results alone, so what is printed there meanwhile goes to standard error.
    """
    python, numpy, threads = random.getstate(), np.random.get_state(), torch.get_num_threads()
    loggers = {logger: logger.level for logger in map(logging.getLogger, ("mteb", "datasets"))}
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with (
        torch.random.fork_rng(devices=devices),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(sys.stderr),
    ):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in loggers.items():
                logger.setLevel(level)
            random.setstate(python)
            np.random.set_state(numpy)
            torch.set_num_threads(threads)


def package() -> Any:
    """The mteb package; importing it takes seconds."""
    try:
        with isolated():
            import mteb
    except ImportError as fault:
        raise ValueError(
            f"Mteb: the package mteb cannot be imported ({fault}); it is an extra: {install_extra('mteb')}"
        ) from fault
    return mteb


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

    @classmethod
    def of(cls, task: Any) -> "Choice":
        """What mteb's task says of itself."""
        return cls(
            name=task.metadata.name,
            category=task.metadata.type,
            metric=task.metadata.main_score,
            splits=tuple(task.eval_splits),
            subsets=tuple(task.hf_subsets),
            parts=tuple(map(cls.of, task.metadata.tasks)) if task.is_aggregate else (),
        )

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
    """The named tasks, each once; arguments as the options of `Mteb`."""
    mteb = package()
    kinds = [kind for kind in vars(mteb.tasks).values() if isinstance(kind, type)]
    known = {kind.metadata.name: kind for kind in kinds if issubclass(kind, mteb.AbsTask)}
    tasks, problems = [], []
    with isolated():
        for name in dict.fromkeys(names):
            if name not in known:
                problems.append(f"no task {name!r}{nearest(name, known)}")
                continue
            there = list(known[name].metadata.eval_splits)
            wanted = list(splits) if splits else ["test"] if "test" in there else there
            if missing := [split for split in wanted if split not in there]:
                problems.append(f"{name} has no split {', '.join(missing)} (it has: {', '.join(there)})")
                continue
            try:
                tasks.append(mteb.get_task(name, eval_splits=wanted, languages=languages))
            except ValueError as fault:
                problems.append(f"{name} has nothing in the languages {', '.join(languages or [])} ({fault})")
        return _choices(tasks, problems)


def by_benchmark(name: str) -> tuple[str, list[Choice]]:
    """The full name of a benchmark, or of one of its aliases in mteb, and its tasks in its order."""
    mteb = package()
    with isolated():
        try:
            benchmark = mteb.get_benchmark(name)
        except KeyError:
            known = [benchmark.name for benchmark in mteb.get_benchmarks()]
            raise ValueError(f"Mteb: no benchmark {name!r}{nearest(name, known)}") from None
        return benchmark.name, _choices(list(benchmark.tasks), [])


def _choices(tasks: Sequence[Any], problems: list[str]) -> list[Choice]:
    chosen = [Choice.of(task) for task in tasks]
    problems += [
        f"{task.metadata.name} reads {' and '.join(task.metadata.modalities)}, and embedrun reads text only"
        for task in tasks
        if list(task.metadata.modalities) != ["text"]
    ]
    if problems:
        raise ValueError(f"Mteb: {'; '.join(problems)}")
    return chosen


def load(task: Any, folder: Path | None) -> Plain:
    """Read the data of one mteb task that is no aggregate; must be called within `isolated`.

    `folder` has one folder for each task in the layout of the hub; None: datasets reads its cache or the hub.
    Returns what was read: `dataset` and `revision` as mteb pins them, and for a copy, whose revision cannot
    be known, the `sha256` of its files instead of the revision.
    """
    if problems := unavailable([task], folder):
        raise DataError(problems)
    name, path = task.metadata.name, task.metadata.dataset["path"]
    notes: dict[str, object] = {"dataset": path, "revision": task.metadata.dataset["revision"]}
    if folder is not None:
        copy = expanded(folder).resolve() / name
        notes |= {"revision": None, "sha256": _fingerprint(copy)}
        dataset = {**task.metadata.dataset, "path": str(copy)}  # mteb forgets it when it unloads the data
        task.metadata = task.metadata.model_copy(update={"dataset": dataset})
    try:
        task.load_data()
    except Exception as fault:  # of many libraries, with no common class
        if exit_code(fault) in (DISK, OUT_OF_MEMORY):
            raise
        reason = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        where = "" if folder is None else f" in {folder / name}"
        raise DataError(f"mteb task {name}: data set {path}{where} cannot be read: {reason}") from fault
    # The cache of datasets does not say which parts a data set has, and mteb then ranks the whole corpus.
    subsets = task.dataset.values() if task.metadata.type == "Reranking" else ()
    if any(split["top_ranked"] is None for splits in subsets for split in splits.values()):
        raise DataError(
            f"mteb task {name}: data set {path} came without top_ranked, the documents to "
            "rank; set folder to one with a whole copy"
        )
    return notes


def unavailable(tasks: Sequence[Any], folder: Path | None) -> list[str]:
    """Why the data of mteb tasks is not there, as far as can be known without reading it.

    None of the tasks is an aggregate; `folder` as in `load`.
    """
    from huggingface_hub import constants

    problems = []
    for task in tasks:
        path, revision = task.metadata.dataset["path"], task.metadata.dataset["revision"]
        what = f"mteb task {task.metadata.name}: data set {path} (revision {revision})"
        if folder is not None:
            if not (copy := expanded(folder) / task.metadata.name).is_dir():
                problems.append(f"{what} has no copy {copy}; put one there, in the layout of the hub")
        elif constants.HF_HUB_OFFLINE and not _cached(path, revision):
            problems.append(
                f"{what} is not in the cache of datasets here, and HF_HUB_OFFLINE is set; set folder to one "
                "with a copy of each data set"
            )
    return problems


def _cached(path: str, revision: str) -> bool:
    """Whether the cache of datasets has that revision and no other, as it always gives the newest."""
    from datasets import config
    from datasets.naming import camelcase_to_snakecase

    *owner, name = path.split("/")
    root = Path(config.HF_DATASETS_CACHE) / "___".join([*owner, camelcase_to_snakecase(name)])
    return {folder.name for folder in root.glob("*/*/*") if folder.is_dir()} == {revision}


def _fingerprint(copy: Path) -> str:
    """SHA-256, in hex, of the names and bytes of all files but hidden ones, which a hub client adds."""
    digest = hashlib.sha256()
    for file in sorted(copy.rglob("*")):
        name = file.relative_to(copy)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            digest.update(f"{name.as_posix()}\0{sha256(file)}\n".encode())
    return digest.hexdigest()


class NonFiniteError(ValueError):
    """A vector holds NaN or infinity, for which mteb's tasks have no score."""


def prompt_for(
    prompts: Mapping[str, str], names: Sequence[str], category: str, kind: str | None
) -> str | None:
    """The prompt of a text: the most specific one that is given, in the order of mteb.

    `prompts` as in `Mteb`; `names` are those of the task and of what it is a part of, the most specific
    first. `kind` is None where the task does not tell them apart.
    """
    ends = ("",) if kind is None else (f"-{kind}", "")
    keys = [name + end for name in (*names, category) for end in ends]
    return next((prompts[key] for key in (*keys, kind or "") if key in prompts), None)


def filled(prompt: str | None, text: str) -> str:
    """The text in its prompt: in place of ``{text}``, or after a prompt without it."""
    if prompt is None:
        return text
    return prompt.replace(_TEXT, text) if _TEXT in prompt else prompt + text


class EncodeAdapter:
    """An `encode` callable with the methods of mteb's encoder protocol; texts are compared by cosine.

    Args:
        prompts: as in `Mteb`; a prompt of the model's own is put around it by `encode`.
        part_of: names of the task that the scored ones are parts of.

    Attributes:
        used: the prompts that were used, by kind of text (``text`` where a task does not tell them apart).
    """

    def __init__(self, encode: Encode, prompts: Mapping[str, str], part_of: Sequence[str] = ()) -> None:
        self._encode, self._prompts, self._part_of = encode, prompts, part_of
        self.used: dict[str, str | None] = {}

    @property
    def mteb_model_meta(self) -> Any:
        """What mteb is told of the model: nothing that could change a score."""
        from mteb.models import ModelMeta

        return ModelMeta.create_empty({"name": "embedrun/encoder", "revision": "none"})

    def encode(
        self,
        inputs: Iterable[Mapping[str, Sequence[str]]],
        *,
        task_metadata: Any,
        prompt_type: Any = None,
        **_: object,
    ) -> np.ndarray:
        """Vectors of texts, in order, float32, ``(texts, dim)``.

        `inputs` are batches that have their texts under ``text``. `prompt_type` is an enumeration with the
        values ``query`` and ``document``; None where the task does not tell them apart.

        Raises:
            NonFiniteError: if a vector is not finite.
        """
        kind = None if prompt_type is None else prompt_type.value
        names = (task_metadata.name, *self._part_of)
        prompt = prompt_for(self._prompts, names, task_metadata.type, kind)
        self.used[kind or "text"] = prompt
        texts = [filled(prompt, text) for batch in inputs for text in batch["text"]]
        # A prompt that the options give stands in place of that of the model for such texts.
        given = {"role": kind} if prompt is None and kind is not None else {}
        starts = range(0, len(texts), GROUP)
        vectors = [self._encode(texts[start : start + GROUP], **given) for start in starts]
        if not all(torch.isfinite(group).all() for group in vectors):
            raise NonFiniteError(f"a vector of {task_metadata.name} is not finite")
        return torch.cat(vectors).numpy()

    def similarity(self, embeddings1: object, embeddings2: object) -> Tensor:
        """Cosine of every two, ``(first, second)``, of arrays or tensors; 0 where a vector is zero."""
        return _unit(embeddings1) @ _unit(embeddings2).T

    def similarity_pairwise(self, embeddings1: object, embeddings2: object) -> Tensor:
        """Cosine of each pair, ``(pairs,)``."""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(dim=-1)


def _unit(embeddings: object) -> Tensor:
    return normalize(torch.atleast_2d(torch.as_tensor(embeddings)).float(), dim=-1)  # (texts, dim)


class OneTask:
    """Score one task of the mteb package; `folder` and `prompts` as in `Mteb`."""

    def __init__(self, choice: Choice, folder: Path | None, prompts: Mapping[str, str]) -> None:
        self.choice, self._folder, self._prompts = choice, folder, prompts
        self._scored = choice.parts or (choice,)

    def sources(self) -> dict[str, Source]:
        """None: the package reads its own data."""
        return {}

    def problems(self) -> list[str]:
        """Why the data is not there, as far as can be known without reading it."""
        with isolated():
            return unavailable([choice.task() for choice in self._scored], self._folder)

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """The score of the task, NaN if the vectors are not finite; arguments as in `Mteb`."""
        choice = self.choice
        notes = {"category": choice.category, "metric": choice.metric, "mteb": version("mteb")}
        with isolated():
            try:
                score, more, files = self._run(encode)
            except NonFiniteError as fault:
                score, more, files = math.nan, {"undefined": str(fault)}, {}
        notes = {"tasks": {choice.name: {**notes, **more}}}
        return Scores({choice.key: 100 * score}, choice.key, notes=notes, files=files)

    def _run(self, encode: Encode) -> tuple[float, Plain, dict[str, Plain]]:
        results, notes = [], {}
        for choice in self._scored:
            adapter = EncodeAdapter(encode, self._prompts, [self.choice.name] if self.choice.parts else [])
            task = choice.task()
            data = load(task, self._folder)
            try:
                result = package().evaluate(
                    adapter,
                    task,
                    co2_tracker=False,
                    cache=None,
                    encode_kwargs={"batch_size": GROUP, "show_progress_bar": False},
                    show_progress_bar=False,
                )
            finally:
                task.unload_data()
            results += result.task_results
            notes[choice.name] = {**data, "prompts": adapter.used, "metrics": _metrics(results[-1].scores)}
        files = {result.task_name: _plain(result.to_dict()) for result in results}
        if not self.choice.parts:
            return float(results[0].get_score()), notes[self.choice.name], files
        whole = self.choice.task().combine_task_results(results)
        files[self.choice.name] = _plain(whole.to_dict())
        return float(whole.get_score()), {"parts": notes}, files


def _plain(data: Any) -> Any:
    """The same as JSON has it, null for a number that is not finite."""
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_plain(value) for value in data]
    if isinstance(data, numbers.Real) and not isinstance(data, (bool, int)):
        return float(data) if math.isfinite(data) else None
    return data if data is None or isinstance(data, (bool, int)) else str(data)


def model_meta(**known: object) -> Plain:
    """What `model_meta.json` says of a model, by the names of mteb's ModelMeta; null where not known."""
    from mteb.models import ModelMeta
    from mteb.models.model_meta import ScoringFunction

    always = {"framework": ["PyTorch", "Sentence Transformers"], "similarity_fn_name": ScoringFunction.COSINE}
    data = ModelMeta.create_empty({**always, **known}).to_dict()
    if data["training_datasets"] is not None:
        data["training_datasets"] = sorted(data["training_datasets"])
    return _plain(data)


def stored(names: Sequence[str], choices: Sequence[Choice]) -> dict[str, dict[str, float]]:
    """Scores × 100 of other models from mteb's own store of results, by model and result key.

    That is `~/.cache/mteb`, or `MTEB_CACHE`. A ValueError names the models of which it has nothing.
    """
    with isolated():
        cache = package().ResultCache()
        tasks = [choice.name for choice in choices]
        every = cache.load_results(list(names), tasks, require_model_meta=False).model_results
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for result, scored in ((one.task_results, found[one.model_name]) for one in every):
        for choice in choices:
            for one in (one for one in result if one.task_name == choice.name):
                values = [
                    subset["main_score"]
                    for split in choice.splits
                    for subset in one.scores.get(split, ())
                    if subset["hf_subset"] in choice.subsets
                ]
                scored |= {choice.key: 100 * math.fsum(values) / len(values)} if values else {}
    if lacking := [name for name in names if not found[name]]:
        raise ValueError(
            f"Mteb: compare: no stored result of {', '.join(lacking)} for these tasks in "
            f"{cache.default_cache_path}; 'import mteb; mteb.ResultCache().download_from_remote()' gets all"
        )
    return found


def _metrics(scores: Mapping[str, Sequence[Plain]]) -> dict[str, dict[str, dict[str, float | None]]]:
    """The numbers that mteb gives, by split, subset and metric; None for one that is not finite.

    A retrieval task's hundred metrics of abstention (whether a score tells when not to answer) are left out.
    """
    return {
        split: {
            subset["hf_subset"]: {
                name: float(value) if math.isfinite(value) else None
                for name, value in subset.items()
                if isinstance(value, numbers.Real) and not name.startswith("nauc_")
            }
            for subset in subsets
        }
        for split, subsets in scores.items()
    }


def averages(scores: Mapping[str, float], category: Mapping[str, str]) -> dict[str, float]:
    """The mean score of each category in alphabetical order and of the whole benchmark, by result key.

    `category` has every task of the benchmark; without the score of one there are no means. That of the
    benchmark is over its tasks, not over its categories: Classification counts 12 times and Summarization
    once in `MTEB(eng, v1)`, whose 56 tasks are those of the paper. A mean is NaN where one of its scores is.
    """
    if any(task not in scores for task in category):
        return {}
    groups = {f".{name}": [task for task in category if category[task] == name] for name in category.values()}
    groups = dict(sorted(groups.items())) | {"": list(category)}
    return {
        f"mteb/avg{name}/score": math.fsum(scores[task] for task in tasks) / len(tasks)
        for name, tasks in groups.items()
    }


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
        compare: names of models on the hub, whose stored results are shown beside these.
        publish_as: `ORG/NAME` or `ORG/NAME@COMMIT`, how mteb's result files call the model; null for the name
            of the run.
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
        compare: list[str] | None = None,
        publish_as: str | None = None,
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
        self.prompts, self.publish_as = dict(prompts or {}), publish_as
        self._others = stored(compare, self._choices) if compare else {}
        _check_prompts(self.prompts, self._choices)

    def sources(self) -> dict[str, Source]:
        """None: the package reads its own data."""
        return {}

    def problems(self) -> list[str]:
        """Why the data is not there, as far as can be known without reading it."""
        return [problem for part in self.parts().values() for problem in part.problems()]

    def parts(self) -> dict[str, OneTask]:
        """One for each task."""
        return {choice.name: OneTask(choice, self.folder, self.prompts) for choice in self._choices}

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Score every task.

        `rows` is empty; `encode` is called with up to 8,192 texts at a time; `progress` is not called, as
        encoding, which takes the time, shows its own.
        """
        if problems := self.problems():
            raise DataError(problems)
        parts = {name: task.score(rows, encode) for name, task in self.parts().items()}
        return joined(parts, self.total(parts))

    def total(self, parts: Mapping[str, Scores]) -> Scores:
        """The averages of a benchmark, what decided all scores, and the main score."""
        scores = {}
        if self.benchmark:
            of_task = {name: scored.scores[scored.main] for name, scored in parts.items()}
            scores = averages(of_task, {choice.name: choice.category for choice in self._choices})
        main = "mteb/avg/score" if scores else self._choices[0].key
        notes: Plain = {"benchmark": self.benchmark, "prompts": self.prompts}
        if self._others:
            notes["compare"] = self._others
        return Scores(scores, main, notes=notes)


def _check_prompts(prompts: Mapping[str, str], choices: Sequence[Choice]) -> None:
    named = {name for choice in choices for name in (choice.category, choice.name)}
    named |= {part.name for choice in choices for part in choice.parts}
    accepted = {*KINDS, *named, *(f"{name}-{kind}" for name in named for kind in KINDS)}
    faults = [
        f"prompts: {key!r} is neither a chosen task, nor the category of one, nor {' or '.join(KINDS)}"
        f"{nearest(key, sorted(named))}"
        for key in prompts
        if key not in accepted
    ]
    if faults:
        raise ValueError(f"Mteb: {'; '.join(faults)}")
