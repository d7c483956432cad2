"""What a run has read: fingerprints of rows and models, skipped rows, overlap and contamination."""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from embedrun.config import BackboneConfig, EvaluateConfig, TeacherConfig
from embedrun.console import aligned, say_and_log
from embedrun.dataset.prepared import of_each
from embedrun.errors import ConfigError, DataError
from embedrun.family import code_of
from embedrun.files import Plain, to_json, write_atomically
from embedrun.rows import MappedTexts, Rows, Skipped
from embedrun.runs import sums
from embedrun.runs.search import MODEL
from embedrun.store import Store, sha256

if TYPE_CHECKING:
    from embedrun.experiment.plan import EvaluatePlan, TrainPlan

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

    Raises:
        DataError: if there is no such model.
        ConfigError: for a revision of a local folder.
    """
    from embedrun.backbone.files import locate

    named = [] if config.name is None else [(config.name, config.revision)]
    named += [(teacher.name, teacher.revision) for teacher in teachers or ()]
    return {
        f"{MODEL}{name}" + ("" if revision is None else f"@{revision}"): _of(locate(name, revision))
        for name, revision in dict.fromkeys(named)
    }


def digest(folder: Path) -> str:
    """SHA-256, in hex, of the names and contents of a model's files."""
    files = sorted(
        {path for pattern in _FILES for path in folder.glob(pattern) if path.is_file()} - {folder / sums.FILE}
    )
    found = hashlib.sha256()
    for path in files:
        found.update(f"{path.relative_to(folder).as_posix()} {sha256(path)}\n".encode())
    return found.hexdigest()


def _of(folder: Path) -> str:
    from embedrun.backbone.files import base_of, commit_of

    own, base = commit_of(folder) or digest(folder), base_of(folder)
    return own if base is None else f"{own} on {_of(base)}"


class Fingerprints:
    """Reads each choice of data, and each of models, once.

    With `strict`, what is missing or faulty is a `DataError` here too, instead of being left to the run.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._known: dict[str, dict[str, str]] = {}

    def of(self, command: str, plain: Plain) -> dict[str, str]:
        """By split, model and code; without what is missing or faulty, which the run reports."""
        from embedrun.experiment.plan import plan_evaluate, plan_train

        plan = cache(partial(plan_evaluate if command == "evaluate" else plan_train, plain))
        training, backbone = _group(plain, "training"), _group(plain, "backbone")
        rows = [*map(plain.get, ("dataset", "evaluation", "data_dir"))]
        rows += map(training.get, ("dev", "dev_tasks"))
        names = [backbone.get("name"), backbone.get("revision"), plain.get("model"), plain.get("revision")]
        models = [*names, training.get("teachers")]
        read = self._once(_rows, [command, *rows], plan) | self._once(_models, [command, *models], plan)
        return read | code_of(plain)

    def _once(
        self,
        read: Callable[["TrainPlan | EvaluatePlan"], dict[str, str]],
        parts: list[object],
        plan: Callable[[], "TrainPlan | EvaluatePlan"],
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


def _group(plain: Plain, name: str) -> Plain:
    found = plain.get(name)
    return found if isinstance(found, Mapping) else {}


def _models(plan: "TrainPlan | EvaluatePlan") -> dict[str, str]:
    config = plan.config
    if isinstance(config, EvaluateConfig):
        return of_models(BackboneConfig(name=config.model, revision=config.revision), None)
    return of_models(config.backbone, config.training.teachers)


def _rows(plan: "TrainPlan | EvaluatePlan") -> dict[str, str]:
    from embedrun.experiment import scoring
    from embedrun.experiment.plan import EvaluatePlan
    from embedrun.experiment.selection import divided

    store, evaluation = Store.find(plan.config.data_dir), plan.config.evaluation
    seen = [] if plan.seen is None else [plan.seen.read("train", store)]
    if isinstance(plan, EvaluatePlan):
        test = scoring.Scorer.read(plan.tasks, plan.dataset, store, evaluation)
        return scoring.fingerprints_of(seen) | test.fingerprints()
    rows = divided(plan, store)
    return (
        scoring.fingerprints_of([*seen, rows.every])
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


_OTHER = re.compile(r"[\W_]+")  # \w is what str.isalnum accepts, and the underscore
# The same rule for ASCII, as a table of bytes: three times as fast, and nearly all of NLI is ASCII.
_ASCII = bytes(ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
Pair = tuple[str, str]


@dataclass(frozen=True)
class Shared:
    """What the rows of one evaluation set share with the training rows, bool, ``(rows,)`` each.

    Args:
        pairs: whether a pair of the row is a training pair.
        sentences: whether a text of the row is a training text.
        unit: what a row is: its pairs, or that sentence where it has one text.
    """

    pairs: np.ndarray
    sentences: np.ndarray
    unit: Literal["pairs", "sentences"] = "pairs"

    @property
    def rows(self) -> np.ndarray:
        """Whether the row, as its unit has it, is in the training rows, bool, ``(rows,)``."""
        return self.pairs if self.unit == "pairs" else self.sentences


def normalise(text: str) -> str:
    """Lower case, with every run of characters other than letters and digits as one space, none at the ends.

    Letters and digits are those of Unicode, so that no script is lost; accents stay. A text without any stays
    as it is, or all such texts would be equal.
    """
    if text.isascii():
        plain = b" ".join(text.encode().translate(_ASCII).split()).decode()
    else:
        plain = _OTHER.sub(" ", text.lower()).strip()
    return plain or text.strip()


def pairs_of(row: Sequence[str]) -> list[Pair]:
    """The pairs of one row of texts in view order; the two texts of a pair are unordered.

    A pair has one; a triplet two, of the anchor with the positive and with the negative; a text none.
    """
    first = row[0]
    return [(first, other) if first <= other else (other, first) for other in row[1:]]


def overlap(train: Iterable[Rows], evaluations: Sequence[Rows]) -> list[Shared]:
    """What each evaluation set shares with the training rows, whatever the form of either; in their order.

    The training rows are read once and only what the evaluation sets contain is kept of them, so that memory
    grows with the evaluation sets alone.
    """
    sets = [[tuple(map(normalise, row)) for row in _texts(rows)] for rows in evaluations]
    wanted = {text for rows in sets for row in rows for text in row}
    pairs: set[Pair] = set()
    sentences: set[str] = set()
    for rows in train:
        texts, places = rows.distinct(list(rows.texts))
        known = _known(texts, wanted)
        found = np.zeros(len(texts), dtype=bool)  # (texts,)
        found[list(known)] = True
        first, *others = places.values()  # (rows,) each
        for view in places.values():
            sentences.update(known[place] for place in np.unique(view[found[view]]).tolist())
        for other in others:
            both = found[first] & found[other]  # (rows,)
            each = zip(first[both].tolist(), other[both].tolist(), strict=True)
            pairs.update(pair for a, b in each for pair in pairs_of((known[a], known[b])))
    return [
        Shared(
            pairs=np.array([not pairs.isdisjoint(pairs_of(row)) for row in rows], dtype=bool),
            sentences=np.array([not sentences.isdisjoint(row) for row in rows], dtype=bool),
            unit="pairs" if len(whole.texts) > 1 else "sentences",
        )
        for whole, rows in zip(evaluations, sets, strict=True)
    ]


def _known(texts: Sequence[str], wanted: Collection[str]) -> dict[int, str]:
    """The texts that are wanted once they are normalised, so, by their places."""
    if not isinstance(texts, MappedTexts):
        return {place: text for place, text in enumerate(map(normalise, texts)) if text in wanted}
    marks = of_each("normalised", texts, _marks, np.uint64, _NORMAL, what="normal forms")  # (texts,)
    places = _perhaps(marks, np.array(_marks(wanted, done=True), np.uint64))
    normal = zip(places.tolist(), map(normalise, texts.at(places)), strict=True)
    return {place: text for place, text in normal if text in wanted}


_NORMAL = 1  # version of `normalise`
_BITS = 22
_MARKS_AT_ONCE = 1 << 20


def _marks(texts: Iterable[str], *, done: bool = False) -> list[int]:
    """A hash of 64 bits of each normalised text, the same in every process."""
    from xxhash import xxh3_64_intdigest

    return [xxh3_64_intdigest((text if done else normalise(text)).encode("utf-8")) for text in texts]


def _perhaps(marks: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The places of marks that are among the wanted ones."""
    low = np.uint64(64 - _BITS)
    table = np.zeros(1 << _BITS, dtype=bool)  # which highest bits occur: few texts pass it
    table[wanted >> low] = True
    found = []
    for begin in range(0, len(marks), _MARKS_AT_ONCE):
        part = np.asarray(marks[begin : begin + _MARKS_AT_ONCE])  # (part,)
        places = np.flatnonzero(table[part >> low])
        found.append(begin + places[np.isin(part[places], wanted)])
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _texts(rows: Rows) -> Iterable[tuple[str, ...]]:
    """The texts of each row, in view order."""
    return zip(*rows.texts.values(), strict=True)


@dataclass(frozen=True)
class Line:
    """The overlap of one evaluation set, or of one `subset` of it.

    Args:
        rows: all of them.
        pairs: rows of which a pair is in the training rows; None where a row is one text and has none.
        sentences: rows of which a single text is.
    """

    name: str
    split: str
    subset: str | None
    rows: int
    pairs: int | None
    sentences: int

    @property
    def unit(self) -> str:
        """What is counted: `pairs`, or `sentences` where a row is one text."""
        return "sentences" if self.pairs is None else "pairs"

    @property
    def seen(self) -> int:
        """Rows that are in the training rows, as pairs or as sentences."""
        return self.sentences if self.pairs is None else self.pairs

    def data(self) -> Plain:
        """The numbers with their percentages, for a JSON file."""
        shares = {
            f"{what}_percent": None if count is None else round(100 * count / max(self.rows, 1), 2)
            for what, count in (("pairs", self.pairs), ("sentences", self.sentences))
        }
        return asdict(self) | shares


def lines(rows: Rows, shared: Shared) -> list[Line]:
    """What one evaluation set shares with the training rows: the whole first, then each of its subsets."""
    found = [_line(rows, None, np.ones(len(rows), dtype=bool), shared)]
    names = np.array(rows.subset)
    return found + [_line(rows, name, names == name, shared) for name in dict.fromkeys(rows.subset)]


def table(found: Sequence[Sequence[Line]], *, subsets: bool = False) -> str:
    """A text table with a line for each set, and one for all of pairs and one for all of single texts.

    `found` has what `lines` gives for each set; with `subsets` there is a line for each subset too.
    """
    cells = [["set", "split", "rows", "pair in training", "%", "a sentence in training", "%"]]
    for whole, *parts in found:
        cells.append(_cells(whole))
        cells += [_cells(part) for part in parts if subsets]
    cells += [_cells(line) for line in totals(found)]
    return aligned(cells, right=(2, 3, 4, 5, 6))


def totals(found: Sequence[Sequence[Line]]) -> list[Line]:
    """The sums of all sets of pairs and of all those of single texts, without subsets; no line for no set."""
    whole = [first for first, *_ in found]
    alike = [[line for line in whole if line.unit == unit] for unit in ("pairs", "sentences")]
    return [
        Line(
            name="total",
            split="",
            subset=None,
            rows=sum(line.rows for line in own),
            pairs=sum(line.seen for line in own) if own[0].unit == "pairs" else None,
            sentences=sum(line.sentences for line in own),
        )
        for own in alike
        if own
    ]


def percent(part: int, whole: int) -> str:
    """`37.9 %`; anything above 0 is never shown as 0."""
    share = 100 * part / whole if whole else 0.0
    return "under 0.1 %" if 0 < share < 0.1 else f"{share:.1f} %"


def _line(rows: Rows, subset: str | None, mask: np.ndarray, shared: Shared) -> Line:
    pairs = int(shared.pairs[mask].sum()) if shared.unit == "pairs" else None
    sentences = int(shared.sentences[mask].sum())
    return Line(rows.name, rows.split, subset, int(mask.sum()), pairs, sentences)


def _cells(line: Line) -> list[str]:
    name = line.name if line.subset is None else f"  {line.subset}"
    cells = [name, line.split, f"{line.rows:,}"]
    for count in (line.pairs, line.sentences):
        cells += ["-", "-"] if count is None else [f"{count:,}", f"{100 * count / max(line.rows, 1):.1f}"]
    return cells


CONTAMINATION_FILE = "contamination.json"
_RULE = (
    "lower case; every run of characters other than letters and digits is one space; the order of the two "
    "texts of a pair does not matter; a row of one text is compared with every text that was seen"
)
_UNITS = ("pairs", "sentences")
Scored = Mapping[str, Mapping[str, Rows]]  # rows of each task, by its own names for its sources


@dataclass(frozen=True)
class Contamination:
    """What the rows of evaluation tasks share with rows that were seen; `shared` has the keys of `scored`."""

    seen: Sequence[Rows]
    scored: Scored
    shared: Mapping[str, Mapping[str, Shared]]

    @classmethod
    def find(cls, seen: Sequence[Rows], scored: Scored) -> "Contamination":
        """Compare every task's rows with the seen ones, which are read once."""
        found = iter(overlap(seen, [rows for own in scored.values() for rows in own.values()]))
        return cls(seen, scored, {task: {key: next(found) for key in own} for task, own in scored.items()})

    def clean(self) -> dict[str, dict[str, np.ndarray]]:
        """Of each task and source, true where no pair of the row, or its one text, was seen, ``(rows,)``."""
        return {task: {key: ~shared.rows for key, shared in own.items()} for task, own in self.shared.items()}

    def summary(self) -> str | None:
        """The seen pairs and sentences of each task, as part of a sentence; None where there are none."""
        every = [(task, unit) for task in self.scored for unit in _UNITS]
        return "; ".join(self._part(*one) for one in every if self._counts(*one)[0]) or None

    def data(self) -> Plain:
        """The whole table, for a JSON file."""
        sets = [
            {"task": task, **line.data()}
            for task, own in self.scored.items()
            for key, rows in own.items()
            for line in lines(rows, self.shared[task][key])
        ]
        seen = [{"name": rows.name, "split": rows.split, "rows": len(rows)} for rows in self.seen]
        tasks = {task: self._task(task) for task in self.scored}
        return {"seen": seen, "tasks": tasks, "sets": sets}

    def _task(self, task: str) -> dict[str, int]:
        """Rows of a task, and how many of its pairs and of its single sentences were seen."""
        units = [unit for unit in _UNITS if self._of(task, unit)]
        return {"rows": sum(map(len, self.scored[task].values()))} | {
            unit: self._counts(task, unit)[0] for unit in units
        }

    def _of(self, task: str, unit: str) -> dict[str, Rows]:
        """The sources of a task whose rows are of a unit."""
        return {key: rows for key, rows in self.scored[task].items() if self.shared[task][key].unit == unit}

    def _counts(self, task: str, unit: str) -> tuple[int, int]:
        """Seen rows and all rows of a task, of those that are of a unit."""
        own = self._of(task, unit)
        return sum(int(self.shared[task][key].rows.sum()) for key in own), sum(map(len, own.values()))

    def _part(self, task: str, unit: str) -> str:
        """`25.6 % of the test pairs of sts (4,825 of 18,850; sts12 32.3 %, ...)`."""
        own, (seen, rows) = self._of(task, unit), self._counts(task, unit)
        splits = "/".join(dict.fromkeys(one.split for one in own.values()))
        name, each = task, ""
        if len(own) == 1:
            name = next(iter(own.values())).name
        else:
            counts = [
                (_label(one, own), int(self.shared[task][key].rows.sum()), len(one))
                for key, one in own.items()
            ]
            each = "; " + ", ".join(f"{set_} {percent(part, all_)}" for set_, part, all_ in counts if part)
        return f"{percent(seen, rows)} of the {splits} {unit} of {name} ({seen:,} of {rows:,}{each})"


def _label(rows: Rows, among: Mapping[str, Rows]) -> str:
    """The name of a data set, with its split where others of that name stand beside it."""
    several = sum(other.name == rows.name for other in among.values()) > 1
    return f"{rows.name} {rows.split}" if several else rows.name


def of_run(seen: Sequence[Rows], test: Scored, dev: Scored) -> tuple[Contamination, Contamination]:
    """What a run's test and dev rows share with the seen rows, and the test rows with the dev rows.

    `seen` are the training rows, the run's own and those that the model had seen before; the `dev` rows
    select the checkpoint.
    """
    selecting = [rows for own in dev.values() for rows in own.values()]
    return Contamination.find(seen, {**test, **dev}), Contamination.find(selecting, test)


def report(training: Contamination, selection: Contamination | None = None) -> Plain:
    """The content of `contamination.json`; `selection` compares the test rows with the dev rows."""
    tables = {"training": training.data()}
    if selection is not None:
        tables["selection"] = selection.data()
    return {"schema": 1, "rule": _RULE, **tables}


def tell(folder: Path, training: Contamination, selection: Contamination | None = None) -> None:
    """Write `contamination.json` into a run directory, and report seen rows, if any."""
    write_atomically(folder / CONTAMINATION_FILE, to_json(report(training, selection)))
    for remark in remarks(training, selection):
        say_and_log(remark)


def remarks(training: Contamination, selection: Contamination | None = None) -> list[str]:
    """A line for the person where rows were seen, a warning if they were trained on."""
    said = []
    if found := training.summary():
        said.append(f"warning: {found} are in the training data; see {CONTAMINATION_FILE}")
    if selection is not None and (found := selection.summary()):
        said.append(
            f"note: {found} are in the dev data, which selects the checkpoint; see {CONTAMINATION_FILE}"
        )
    return said
