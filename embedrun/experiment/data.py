"""The rows and models of a run: which it trains on and selects by, their fingerprints, skipped rows."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from embedrun.backbone.files import base_of, commit_of, locate
from embedrun.backbone.shape import shape_of
from embedrun.config import BackboneConfig, EvaluateConfig, TeacherConfig, TrainConfig
from embedrun.config.mixture import data_sets
from embedrun.dataset import DataSet, roles_of
from embedrun.dataset.mix import each, named, with_roles
from embedrun.dataset.named import unreadable
from embedrun.dataset.split import Held, hold_out
from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.scores import Task
from embedrun.experiment import scoring
from embedrun.experiment.losses import group_of
from embedrun.experiment.plan import (
    EvaluatePlan,
    TrainPlan,
    plan_evaluate,
    plan_train,
    ways_to_dev,
    without_dev,
)
from embedrun.family import code_of, family_name
from embedrun.files import Plain, write_atomically
from embedrun.rows import Rows, Skipped, joined
from embedrun.runs import sums
from embedrun.runs.search import MODEL
from embedrun.store import Store, hub, sha256

# What decides a model's vectors; a folder may hold other files, such as its card.
_FILES = (
    "*.json",
    "*/config.json",
    "*.safetensors",
    "*/model.safetensors",  # a layer behind the pooling
    "pytorch_model*.bin",
    "*vocab.txt",
    "*merges.txt",
    "*.model",
)


def of_models(config: BackboneConfig, teachers: Sequence[TeacherConfig] | None) -> dict[str, str]:
    """The commit or `digest` of the model that is trained, if it has a name, and of each teacher.

    Keys are ``model NAME``, with ``@REVISION`` appended where one is asked for. An adapter's value has that
    of its base appended.
    """
    return {
        f"{MODEL}{name}" + ("" if revision is None else f"@{revision}"): _of(locate(name, revision))
        for name, revision in dict.fromkeys(_named(config, teachers).values())
    }


def _named(
    config: BackboneConfig, teachers: Sequence[TeacherConfig] | None
) -> dict[str, tuple[str, str | None]]:
    named = {"": (config.name, config.revision)}
    for place, teacher in enumerate(teachers or ()):
        named[f"training.teachers[{place}]: "] = teacher.name, teacher.revision
    return {start: (name, revision) for start, (name, revision) in named.items() if name is not None}


def check_places(
    splits: Sequence[tuple[DataSet, str]],
    tasks: Mapping[str, Task],
    config: BackboneConfig,
    teachers: Sequence[TeacherConfig] | None,
    store: Store,
) -> None:
    """Refuse, all together, splits, what tasks bring with them, and models that are missing."""
    problems = unreadable(splits, store) + scoring.lacking(tasks)
    for start, (name, revision) in _named(config, teachers).items():
        try:
            locate(name, revision)
        except DataError as fault:
            # The advice behind the first sentence is of the backbone.
            problems += [start + problem.split(". ")[0] if start else problem for problem in fault.problems]
    if problems:
        raise DataError(problems)
    if config.layers is not None:
        shape_of(config)  # refuses more than the model has


def commits(config: TrainConfig) -> dict[str, str]:
    """The commits of the data sets of the hub, of a mixture those of its parts."""
    every = data_sets(config.dataset).values()
    return {name: commit for options in every for name, commit in hub.commit_of(options).items()}


def seen_rows(plan: TrainPlan | EvaluatePlan, store: Store) -> list[Rows]:
    """The rows that the model had seen before: of `evaluation.contamination`."""
    return [dataset.read(split, store) for dataset, split in plan.seen]


def digest(folder: Path) -> str:
    """SHA-256, in hex, of the names and contents of a model's files."""
    files = sorted(
        {path for pattern in _FILES for path in folder.glob(pattern) if path.is_file()} - {folder / sums.FILE}
    )
    hasher = hashlib.sha256()
    for path in files:
        hasher.update(f"{path.relative_to(folder).as_posix()} {sha256(path)}\n".encode())
    return hasher.hexdigest()


def _of(folder: Path) -> str:
    version, base = commit_of(folder) or digest(folder), base_of(folder)
    return version if base is None else f"{version} on {_of(base)}"


class Fingerprints:
    """Reads each choice of data, and each of models, once.

    With `strict`, what is missing or faulty is a `DataError` here too, instead of being left to the run.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._known: dict[str, dict[str, str]] = {}

    def of(self, command: str, plain: Plain) -> dict[str, str]:
        """By split, model and code; without what is missing or faulty, which the run reports."""
        plan = cache(partial(plan_evaluate if command == "evaluate" else plan_train, plain))
        training, backbone = group_of(plain, "training"), group_of(plain, "backbone")
        rows = [*map(plain.get, ("dataset", "evaluation", "data_dir"))]
        rows += map(training.get, ("dev", "dev_tasks"))
        models = [*map(backbone.get, ("name", "revision")), *map(plain.get, ("model", "revision"))]
        models.append(training.get("teachers"))
        read = self._once(_rows, [command, *rows], plan) | self._once(_models, [command, *models], plan)
        return read | code_of(plain)

    def _once(
        self,
        read: Callable[[TrainPlan | EvaluatePlan], dict[str, str]],
        parts: list[object],
        plan: Callable[[], TrainPlan | EvaluatePlan],
    ) -> dict[str, str]:
        """What is read of a configuration, by the parts of it that decide that."""
        known = json.dumps([read.__name__, *parts], sort_keys=True)
        if known not in self._known:
            try:
                self._known[known] = read(plan())
            except (ConfigError, DataError, OSError):
                if self._strict:
                    raise
                self._known[known] = {}
        return self._known[known]


def _models(plan: TrainPlan | EvaluatePlan) -> dict[str, str]:
    config = plan.config
    if isinstance(config, EvaluateConfig):
        return of_models(BackboneConfig(name=config.model, revision=config.revision), None)
    return of_models(config.backbone, config.training.teachers)


def _rows(plan: TrainPlan | EvaluatePlan) -> dict[str, str]:
    store, evaluation = Store.find(plan.config.data_dir), plan.config.evaluation
    seen = seen_rows(plan, store)
    if isinstance(plan, EvaluatePlan):
        test = scoring.Scorer.read(plan.tasks, plan.dataset, store, evaluation)
        return scoring.fingerprints_of(seen) | test.fingerprints()
    rows = divided(plan, store)
    return (
        scoring.fingerprints_of([*seen, *rows.every.values()])
        | scoring.dev_scorer(plan.dev_tasks, rows.dev, store, evaluation).fingerprints()
        | scoring.Scorer.read(plan.tasks, plan.dataset, store, evaluation).fingerprints()
    )


SKIPPED_FILE = "skipped_rows.jsonl"


def skipped_in(every: Iterable[Rows]) -> list[Skipped]:
    """The skipped rows of all splits, each once, even if two tasks score the same split."""
    return list(dict.fromkeys(row for rows in every for row in rows.skipped))


def write_skipped(skipped: Sequence[Skipped], folder: Path) -> None:
    """Write `skipped_rows.jsonl`, if there are any: file, row, column (null: the whole row) and reason."""
    if not skipped:
        return
    lines = [json.dumps({**asdict(row), "column": row.column or None}) for row in skipped]
    write_atomically(folder / SKIPPED_FILE, "".join(f"{line}\n" for line in lines))


def skip_warning(skipped: Sequence[Skipped]) -> str | None:
    """One line with the number of skipped rows and the first of them, or None."""
    if not skipped:
        return None
    first = skipped[0]
    where = f"{first.file}, row {first.row}" + (f", {first.column}" if first.column else "")
    rows = f"{len(skipped):,} faulty row{'s' if len(skipped) > 1 else ''}"
    return f"{rows} of your files skipped, the first: {where}: {first.reason}; see {SKIPPED_FILE}"


LAST = "nothing: the last checkpoint is kept"


@dataclass(frozen=True)
class Divided:
    """The rows of a run: the training splits as they were read, those trained on, those that select, if any.

    The first are by part of a mixture, under '' where there is one data set; those trained on are by the
    losses of the plan, and `sizes` are the numbers of rows by part. `selected_by` is what selects, in a few
    words; `said` are the lines that a person is told of it.
    """

    every: dict[str, Rows]
    train: dict[str, Rows]
    dev: Rows | None
    selected_by: str
    said: Sequence[str] = ()
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many are trained on."""
        return sum(map(len, self.train.values()))


def read_splits(plan: TrainPlan) -> list[tuple[DataSet, str]]:
    """Every split of a data set that a run reads."""
    tasks = [*scoring.splits_of(plan.tasks, plan.dataset), *scoring.splits_of(plan.dev_tasks, None)]
    named = [(plan.dataset, "train"), (plan.dev, "dev"), *plan.seen]
    splits = [
        (part, split) for data, split in named if data is not None for part in each(data, split).values()
    ]
    return [*splits, *tasks]


def expected(plan: TrainPlan) -> str:
    """`Divided.selected_by`, as far as it is known without the training rows."""
    if plan.dev is None:
        return "5 % of the training rows, held out if there are enough" if plan.held else LAST
    parts = [part or family_name(dataset) for part, dataset in each(plan.dev, "dev").items()]
    more = [f"5 % of the rows of {part}, held out if there are enough" for part in plan.held]
    return ", ".join([*(f"{part} dev" for part in parts), *more])


def divided(plan: TrainPlan, store: Store, *, with_dev: bool = True) -> Divided:
    """Read the training rows of a plan; where it holds some of them out, these select.

    The rows that are held out depend on the training split and `dataset.split_seed` alone, neither on the
    seed of the run nor on `training.data_fraction`, which draws from the others. Without `with_dev`, the dev
    split of a data set is left unread.
    """
    parts = each(plan.dataset, "train")
    every = {part: named(dataset.read("train", store), part) for part, dataset in parts.items()}
    held = {part: hold_out(every[part], _split_seed(plan.config, part)) for part in plan.held}
    train = {part: _trained(plan, parts[part], held.get(part, rows)) for part, rows in every.items()}
    sizes = {part: len(rows) for part, rows in train.items()}
    if list(plan.losses) == [""]:
        train = {"": joined(train)}
    dev = _dev_of_splits(plan, store) if with_dev else {}
    said = [*_remarks(plan, store, dev), *_notices(plan, every, held)]
    dev |= {
        part: replace(named(of_part.dev, part), roles=roles_of(parts[part]))
        for part, of_part in held.items()
        if of_part.dev is not None
    }
    if not dev and (plan.dev is None or with_dev):
        return Divided(every, train, None, LAST, [*said, *_no_dev_rows(plan, held)], sizes)
    rows = joined({part: dev[part] for part in [*every, ""] if part in dev}) if dev else None
    chosen = [_held_out(part, every, held) if part in held else f"{dev[part].name} dev" for part in dev]
    return Divided(every, train, rows, ", ".join(chosen) or expected(plan), said, sizes)


def _trained(plan: TrainPlan, dataset: DataSet, read: Rows | Held) -> Rows:
    """The rows of a part that are trained on, without those held out."""
    rows = read.train if isinstance(read, Held) else read
    rows = getattr(dataset, "trained", lambda every: every)(rows)  # of lists, as each epoch draws them
    return rows.drawn(plan.config.training.data_fraction, plan.config.seed)


def _dev_of_splits(plan: TrainPlan, store: Store) -> dict[str, Rows]:
    """The dev splits of the parts that have one."""
    data_sets = {} if plan.dev is None else each(plan.dev, "dev")
    return {part: named(with_roles(dataset, "dev", store), part) for part, dataset in data_sets.items()}


def _remarks(plan: TrainPlan, store: Store, dev: Mapping[str, Rows]) -> list[str]:
    """What a person has to know of the columns that are read, and of dev rows."""
    parts = each(plan.dataset, "train")
    said = [getattr(dataset, "said", "") for dataset in parts.values()]
    for part, dataset in parts.items():
        if part in dev or (plan.dev is not None and not part):
            said.append(getattr(dataset, "remark", lambda store: "")(store))
    return [text for text in said if text]


def _held_out(part: str, every: Mapping[str, Rows], held: Mapping[str, Held]) -> str:
    of_part = f" of {part}" if part else ""
    return f"{held[part].rows:,} of {len(every[part]):,} training rows{of_part}, held out"


def _notices(plan: TrainPlan, every: Mapping[str, Rows], held: Mapping[str, Held]) -> list[str]:
    options = data_sets(plan.config.dataset)
    return [
        _held_out_notice(_held_out(part, every, held).removesuffix(", held out"), part, options[part])
        for part, of_part in held.items()
        if of_part.dev is not None
    ]


def _split_seed(config: TrainConfig, part: str) -> int:
    return data_sets(config.dataset)[part].get("split_seed", 42)


def _held_out_notice(what: str, part: str, options: Plain) -> str:
    place, seed = f"dataset.parts.{part}" if part else "dataset", options.get("split_seed", 42)
    divided_by = f", '{place}.split={{train: 0.9, dev: 0.1}}'" if "split" in options else ""
    return (
        f"{what} are held out to pick the checkpoint, by {place}.split_seed={seed}; they share no text with "
        f"the others. To choose: {place}.dev=FILE{divided_by} or training.dev=none"
    )


def _no_dev_rows(plan: TrainPlan, held: Mapping[str, Held]) -> list[str]:
    """What is said where nothing selects; a ConfigError where an option asks for it."""
    if unselected := without_dev(plan.config, plan.dataset):
        raise ConfigError(unselected)
    kept = "the last checkpoint is kept"
    if plan.config.training.dev == "none":
        return [f"training.dev=none: {kept}"]
    reasons = dict.fromkeys(part.reason for part in held.values())
    reason = " ".join(reasons) or "and none of these rows can be ranked"
    return [f"no dev rows, {reason}: {kept}; {ways_to_dev(plan.config, plan.dataset)} gives them"]
