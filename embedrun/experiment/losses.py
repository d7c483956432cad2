"""The terms of a mix against the rows: what they read, whether they can be active, what they compare."""

import inspect
import math
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import ModuleDict

from embedrun import family
from embedrun.config import Checker, LayersConfig, LossConfig
from embedrun.config.mixture import placed
from embedrun.config.scale import upper_quarter
from embedrun.console import say_and_log
from embedrun.dataset import DataSet, views_of
from embedrun.dataset.nli import conflicts, grouped
from embedrun.errors import ConfigError
from embedrun.family import build, family_name, without
from embedrun.files import Plain
from embedrun.loss import terms
from embedrun.loss.terms import IDENTITY, TEACHER, Pass, Positives, Term, needs, source, used
from embedrun.rows import Rows, numbered_negatives

_COMMON = ("weight", "name", "views")  # options of every term; embedrun/loss/mix.py reads them
_BOUND = "positive_from"  # the option of a term that takes pairs for positives by their score
_TERM = re.compile(r"(?:(?P<part>\w+)/)?loss/(?P<key>\w+)")  # in metrics.jsonl
_KEY = re.compile(r"[A-Za-z]\w*", re.ASCII)
_NO_TEACHER = (
    "learns from frozen encoders, and there is none; give training.teachers, such as "
    "'training.teachers=[{name: DIR}]'"
)


@dataclass(frozen=True)
class Losses:
    """What the terms of a mix read.

    Args:
        terms: those with a weight, by key.
        ways: how a view goes through the encoder, by key of the term and by parameter of its `forward`.
        passes: the distinct values of `ways`, by their own keys.
        targets: columns of the data set.
        taught: views whose texts the teachers encode.
        unbounded: keys of the terms that lack `positive_from`, which depends on a scale that is not known.
        score_range: the scale of the user's scores, where it is said.
        options: of the terms as they are configured, by key.
        cuts: weights by how many of the first numbers of a vector the losses see; empty: all.
        layers: how inner layers count, once; empty: not at all.
    """

    terms: dict[str, Term] = field(default_factory=dict)
    ways: dict[str, dict[str, Pass]] = field(default_factory=dict)
    passes: dict[str, Pass] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    taught: list[str] = field(default_factory=list)
    unbounded: list[str] = field(default_factory=list)
    score_range: tuple[float, float] | None = None
    options: Plain = field(default_factory=dict)
    cuts: dict[int, float] = field(default_factory=dict)
    layers: list[LayersConfig] = field(default_factory=list)

    def idle(self, rows: int, columns: Mapping[str, Tensor] | None = None) -> list[str]:
        """Terms that can never be active in a batch of so many rows, each with its reason.

        `columns` are the targets of all training rows; None: not read yet.
        """
        problems = []
        for key, term in self.terms.items():
            there = {**(columns or {}), **dict.fromkeys(self.views(key), True)}
            if reason := terms.idle(term, rows, there):
                problems.append(f"loss.terms.{key}: cannot work: {reason}")
        return problems

    def views(self, key: str) -> list[str]:
        """The parameters of a term that get a view of the rows."""
        return [name for name, way in self.ways[key].items() if way.key in self.passes]

    def positives(self, columns: Mapping[str, Tensor], rows: int) -> dict[str, Positives]:
        """Which rows are positives, by key, for the terms that choose them or take every row for one."""
        every = {key: terms.positives(term, columns) for key, term in self.terms.items()}
        for key, term in self.terms.items():
            if views := {self.ways[key][name].view for name in getattr(term, "pulled", ())}:
                every[key] = Positives(rows, _EVERY if len(views) > 1 else "two passes of every text")
        return {key: chosen for key, chosen in every.items() if chosen is not None}


def group_of(plain: Plain, name: str) -> Plain:
    """A group of a configuration that has not been checked; empty where it is none."""
    group = plain.get(name)
    return group if isinstance(group, Mapping) else {}


def plan_losses(checker: Checker, plain: Plain, dataset: DataSet | None) -> Losses:
    """Build every term with a weight; notes those that are faulty, idle, or do not fit the data set."""
    training = group_of(plain, "training")
    by_key = group_of(plain, "loss").get("terms")
    if not isinstance(by_key, Mapping):
        return Losses()  # the schema check has reported it
    planner = _Planner(checker, dataset, plain, by_key)
    losses = planner.losses
    for key, options in by_key.items():
        planner.add(str(key), options)
    if (cuts := group_of(plain, "loss").get("matryoshka")) is not None:
        losses.cuts.update(_cuts(checker, cuts, losses.terms))
    if (layers := group_of(plain, "loss").get("layers")) is not None:
        made = checker.build(_Alone, {"loss": {"terms": {}, "layers": layers}})
        losses.layers.extend([made.loss.layers] if made is not None and made.loss.layers is not None else [])
    if not losses.terms and not checker.problems:
        checker.problems.append("loss.terms: no term has a weight above 0; choose loss=angle")
    rows = training.get("batch_size")
    if type(rows) is int and rows > 0:
        checker.problems += losses.idle(rows)
    return losses


@dataclass
class _Alone:
    loss: LossConfig


def _cuts(checker: Checker, plain: object, of: Mapping[str, Term]) -> dict[int, float]:
    """Weights by width; notes what is wrong with them."""
    # With the paths that the schema check of a run has, so that what both find is one problem.
    made = checker.build(_Alone, {"loss": {"terms": {}, "matryoshka": plain}})
    if made is None or (config := made.loss.matryoshka) is None:
        return {}
    weights = [1.0] * len(config.dims) if config.weights is None else config.weights
    faults = []
    falling = sorted({*config.dims}, reverse=True)
    if not falling or falling[-1] < 1 or falling != config.dims:
        faults.append(f"dims: expected falling numbers of 1 or more, as [384, 128, 64], got {config.dims}")
    if len(weights) != len(config.dims) or not all(0 <= weight < math.inf for weight in weights):
        faults.append(f"weights: expected {len(config.dims)}, one of dims each, of 0 or more, got {weights}")
    faults += [
        f"dims: loss.terms.{key} has weights for whole vectors; leave one of both out"
        for key, term in of.items()
        if "dim" in inspect.signature(type(term)).parameters
    ]
    checker.problems += [f"loss.matryoshka.{fault}" for fault in faults]
    return {} if faults else dict(zip(config.dims, weights, strict=True))


def untaught(training: Plain, losses: Iterable[Losses]) -> list[str]:
    """Teachers that no loss of a run learns from."""
    if not training.get("teachers") or any(mix.taught for mix in losses):
        return []
    return [
        "training.teachers: no loss learns from teachers; choose loss=mse_teacher, loss=mse_embeddings or "
        "loss=rankcse, or leave it null"
    ]


class _Planner:
    """Adds the terms of a mix to `losses`, one by one; `plain` is the configuration that they are of."""

    def __init__(self, checker: Checker, dataset: DataSet | None, plain: Plain, options: Plain) -> None:
        teachers = group_of(plain, "training").get("teachers")
        self._checker, self._dataset = checker, dataset
        self._teachers = len(teachers) if isinstance(teachers, list) else 0
        self._sharded = group_of(plain, "gpu").get("shard") == "full"
        self.losses = Losses(score_range=getattr(dataset, "score_range", None), options=dict(options))

    def add(self, key: str, options: object) -> None:
        """Build a term, and note what is wrong with it."""
        path = f"loss.terms.{key}"
        if not isinstance(options, Mapping):
            self._checker.problems.append(f"{path}: expected a mapping of options, got {options!r}")
            return
        if fault := _fault(key, options.get("weight", 1.0)):
            self._checker.problems.append(f"{path}{fault}")
            return
        name, has_weight = options.get("name", key), options.get("weight", 1.0) > 0
        if not self._teachers and _learns_from_teachers(name):
            self._checker.problems += [f"{path}: {_NO_TEACHER}"] if has_weight else []
            return
        term_options = without(options, *_COMMON)
        is_given = term_options.get(_BOUND, ...) is not None
        # Asked for once the scores are read, to name their range.
        is_open = not is_given and (self._dataset is None or hasattr(self._dataset, "score_range"))
        if is_open:
            term_options = without(term_options, _BOUND)
        # The counts alone, until the models are there.
        known = {"dim": 1, "teacher_dims": (1,) * self._teachers, "head": None}
        term: Term | None = build(self._checker, "loss", name, term_options, path, given=known)
        if term is not None and has_weight and terms.reads_tokens(term):
            self._read_tokens(key, term, options)
            return
        ways = term and self._ways(path, term, options.get("views"))
        if term is None or ways is None or not has_weight:
            return
        self.losses.terms[key], self.losses.ways[key] = term, ways
        self.losses.unbounded.extend([key] if is_open else [])
        self._match_views(key, named=options.get("views") or ())

    def _read_tokens(self, key: str, term: Term, options: Plain) -> None:
        if "views" in options:
            problem = f"loss.terms.{key}.views: it reads every text of a row; leave views out"
            self._checker.problems.append(problem)
        if self._sharded:
            self._checker.problems.append(
                f"loss.terms.{key}: its head shares weights with the model, which gpu.shard=full divides; "
                "choose gpu.shard=none"
            )
        there = () if self._dataset is None else views_of(self._dataset)
        ways = self.losses.ways[key] = terms.masked_passes(term, there)
        self.losses.terms[key] = term
        self.losses.passes.update(used(ways, there))

    def _ways(self, path: str, term: Term, views: object) -> dict[str, Pass] | None:
        """How the views of a term go through the encoder; None where its `views` are faulty."""
        if views is not None and not isinstance(views, Mapping):
            self._checker.problems.append(f"{path}.views: expected a mapping by view, got {views!r}")
            return None
        there = () if self._dataset is None else views_of(self._dataset)
        start = f"{path}."
        try:
            ways = terms.passes(term, views)
            start = f"{path}: "
            return terms.with_negatives(term, ways, len(numbered_negatives(there)))
        except ValueError as faults:
            self._checker.problems += [f"{start}{fault}" for fault in str(faults).splitlines()]
            return None

    def _match_views(self, key: str, named: Container[str]) -> None:
        losses, dataset = self.losses, self._dataset
        if dataset is None:
            return
        there = views_of(dataset)
        ways, reads = losses.ways[key], needs(losses.terms[key])
        wanted = [*reads.views, *(name for name in reads.optional_views if name in named)]
        lacking = [ways[name].view for name in wanted if name in ways and ways[name].view not in there]
        losses.passes.update(used(ways, there))
        for name in (*reads.targets, *reads.optional_targets):
            target, is_needed = source(name, ways), name in reads.targets
            if target.endswith(TEACHER):
                self._teach(key, target.removesuffix(TEACHER), is_needed=is_needed)
            elif target in dataset.targets:
                losses.targets.extend([target] if target not in losses.targets else [])
            elif is_needed and not target.endswith(IDENTITY):
                lacking.append(target)
        one_of = getattr(losses.terms[key], "one_of", ())
        given = {*dataset.targets, *(name for name in ways if ways[name].view in there)}
        given |= {"negative"} if numbered_negatives(given) else set()
        if one_of and given.isdisjoint(one_of):
            lacking.append(" or ".join(one_of))
        if lacking:
            has = ", ".join([*there, *dataset.targets])
            self._checker.problems.append(
                f"loss.terms.{key}: needs {', '.join(dict.fromkeys(lacking))}, which "
                f"dataset={family_name(dataset)} does not give (it gives {has}); choose another loss or "
                "another dataset"
            )

    def _teach(self, key: str, view: str, *, is_needed: bool) -> None:
        losses = self.losses
        if not self._teachers:
            self._checker.problems += [f"loss.terms.{key}: {_NO_TEACHER}"] if is_needed else []
        elif view not in losses.taught and any(way.view == view for way in losses.passes.values()):
            losses.taught.append(view)


def _fault(key: str, weight: object) -> str | None:
    """What is wrong with a term, whichever it is, to stand behind its path."""
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
        return f".weight: must be a finite number at least 0, got {weight!r}"
    if _KEY.fullmatch(key) is None or hasattr(ModuleDict, key):
        return ": not a name for a term; give another key, with name: for the term"
    return None


def _learns_from_teachers(name: object) -> bool:
    if not isinstance(name, str) or name not in family.names("loss"):
        return False
    return "teacher_dims" in inspect.signature(family.find("loss", name).__init__).parameters


_NLI = ("entailment", "neutral", "contradiction")
_EVERY = "the texts of every pair"  # the rule of a term that takes pairs of any score for positives
_FEW = 2  # % of the rows; a term that chooses fewer of them as positives is warned of


def check_active(losses: Losses, batch_size: int, columns: Mapping[str, np.ndarray], rows: int) -> None:
    """Refuse terms that these rows can never make active, or whose positives nobody has told from the others.

    `columns` are the targets of all training rows, `rows` their number: if there are fewer than the
    configured `batch_size`, batches are smaller.
    """
    open_bounds = [_ask(key, columns["score"]) for key in losses.unbounded]
    if problems := open_bounds or losses.idle(min(batch_size, rows), _tensors(columns)):
        raise ConfigError(problems)


def _ask(key: str, score: np.ndarray) -> str:
    option, (low, high) = f"loss.terms.{key}.{_BOUND}", (float(score.min()), float(score.max()))
    ends = math.floor(low), math.ceil(high)
    bound = upper_quarter(*ends)
    scale = f"{ends[0]:g},{ends[1]:g}" if low < high else "LOW,HIGH"
    return (
        f"{option}: which pairs are positives is not known: the training rows have scores from {low:g} to "
        f"{high:g}; pass 'dataset.score_range=[{scale}]', which makes the upper quarter of that scale "
        f"positives, or {option}={bound:g}, the lowest score of a positive pair"
    )


def positives(
    losses: Losses, columns: Mapping[str, np.ndarray], rows: int
) -> tuple[dict[str, str], list[str]]:
    """How many rows are positives, as a text by key of the terms that have positives; and warnings."""
    texts, warnings = {}, []
    for key, chosen in losses.positives(_tensors(columns), rows).items():
        share = 100 * chosen.rows / rows
        texts[key] = f"{chosen.rows:,} of {rows:,} rows ({share:.1f} %) are positives ({chosen.rule})"
        if "score" in columns:
            warnings += _badly_bounded(losses, key, chosen, columns["score"])
    return texts, warnings


def _badly_bounded(losses: Losses, key: str, chosen: Positives, score: np.ndarray) -> list[str]:
    """A warning where pairs below the middle of the scale are positives, or hardly any pair is; or none."""
    option, term = f"loss.terms.{key}", losses.terms[key]
    if chosen.rule == _EVERY:
        option = "loss=angle_only_ibn loss.terms.in_batch_negatives"
    elif not hasattr(term, _BOUND) or "score" not in needs(term).targets:
        return []
    low, high = losses.score_range or (float(score.min()), float(score.max()))
    middle = float(f"{(low + high) / 2:g}")
    alike = int((score >= middle).sum())
    few = chosen.rows < alike and 100 * chosen.rows < _FEW * len(score)
    if not few and chosen.rows <= alike:
        return []
    return [
        f"loss.terms.{key}: takes {chosen.rows:,} of {len(score):,} rows for positives, and {alike:,} are "
        f"rated {middle:g}, the middle of {low:g} to {high:g}, or higher; pass "
        f"{option}.{_BOUND}={middle:g} to take those"
    ]


def check_rows(
    losses: Mapping[str, Losses], batch_size: int, train: Mapping[str, Rows]
) -> tuple[dict[str, str], list[str]]:
    """Hold the rows of each part against its losses: its positives as `positives` has them, and warnings.

    Raises:
        ConfigError: where `check_active` refuses a part.
    """
    texts, warnings, problems = {}, [], []
    for part, mix in losses.items():
        rows, of_part = train[part], f"{part}/" if part else ""
        try:
            check_active(mix, batch_size, rows.targets, len(rows))
        except ConfigError as fault:
            problems += [placed(part, problem) for problem in fault.problems]
            continue
        chosen, doubts = positives(mix, rows.targets, len(rows))
        texts |= {f"{of_part}{key}": text for key, text in chosen.items()}
        warnings += [placed(part, doubt) for doubt in [*doubts, contradiction(mix, rows.targets)] if doubt]
    if problems:
        raise ConfigError(problems)
    return texts, warnings


def acts_on(losses: Losses, columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """What the rows give a term, by its key: how many can be masked; how often scores contradict labels.

    `columns` are the targets of all training rows.
    """
    said = {}
    for key, term in losses.terms.items():
        read = {*needs(term).targets, *needs(term).optional_targets}
        if "maskable" in read & columns.keys():
            usable = columns["maskable"]
            share = 100 * usable.mean() if len(usable) else 0.0
            said[key] = (
                f"{int(usable.sum()):,} of {len(usable):,} rows ({share:.1f} %) are long enough to be masked"
            )
        elif {"label", "score"} <= read & columns.keys():
            shares = conflicts(grouped(columns["label"], columns["score"])).items()
            text = ", ".join(f"{100 * share:.1f} % of {one} and {other}" for (one, other), share in shares)
            said[key] = f"scores order against labels: {text}"
    return said


def contradiction(losses: Losses, columns: Mapping[str, np.ndarray]) -> str | None:
    """A warning where labels and scores, both read by the terms, order the pairs against each other, or None.

    NLI labels are 0 entailment, 1 neutral, 2 contradiction, so scores should fall from label to label. Where
    they do not, two of the constants are probably swapped. `columns` are the targets of all training rows.
    """
    read = {target for term in losses.terms.values() for target in needs(term).targets}
    if not {"label", "score"} <= read:
        return None
    label, score = columns["label"], columns["score"]
    means = [
        (name, float(score[label == code].mean())) for code, name in enumerate(_NLI) if (label == code).any()
    ]
    if all(higher > lower for (_, higher), (_, lower) in pairwise(means)):
        return None
    text = ", ".join(f"{name} {mean:.3g}" for name, mean in means)
    return (
        f"labels and scores contradict each other: the mean scores are {text}, and they should fall in this "
        "order (label 0 entailment, 1 neutral, 2 contradiction); are two of them swapped?"
    )


def tell_first_step(losses: Mapping[str, Losses], values: Mapping[str, Tensor | float]) -> None:
    """Say each term's share of the gradient, with a warning of a term that has hardly any.

    Of a mixture these are the terms of the parts that the first step has.
    """
    for part, mix in losses.items():
        start = f"{part}/gradient_share/" if part else "gradient_share/"
        shares = {key: float(values[start + key]) for key in mix.terms if start + key in values}
        if len(shares) > 1:
            _tell_shares(part, shares)


def _tell_shares(part: str, shares: Mapping[str, float]) -> None:
    texts = {
        key: "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %" for key, share in shares.items()
    }
    of_part = f" ({part})" if part else ""
    say_and_log(f"gradient at the first step{of_part}: {', '.join(map(' '.join, texts.items()))}")
    for key in [key for key, share in shares.items() if share < 0.01]:
        path = placed(part, f"loss.terms.{key}")
        say_and_log(
            f"warning: {path}: {texts[key]} of the gradient at the first step, as if the mix "
            f"were without it; raise {path}.weight, or leave the term out"
        )


def idle(metrics: Iterable[Mapping[str, Any]]) -> list[str]:
    """A warning for each term whose loss was 0 at all logged steps of a training; none of fewer than three.

    Of a term with a margin, comparisons may all be beyond it from the start: a masked copy is hardly ever
    farther from its sentence than another one with more masks.
    """
    logged: dict[tuple[str, str], list[float]] = {}
    for line in metrics:
        if (name := _TERM.fullmatch(line["name"])) and line["split"] == "train":
            logged.setdefault((name["part"] or "", name["key"]), []).append(line["value"])
    return [
        f"{placed(part, f'loss.terms.{key}')}: its loss was 0 at all {len(values)} steps that were logged, "
        f"as if the mix were without it; {f'{part}/' if part else ''}violated/{key} in metrics.jsonl has the "
        "share of comparisons in the wrong order"
        for (part, key), values in logged.items()
        if len(values) > 2 and not any(values)
    ]


def sources(losses: Losses) -> list[str]:
    """The papers behind the losses, each once, as the classes of the terms cite them."""
    # Up to the end of the sentence or its first half; a full stop after `Eq` ends neither.
    cited = re.compile(r"Source: (.+?)(?:;|(?<!\bal)(?<!Eq)(?<!Sec)\.)(?= |$)")
    matches = [cited.search(" ".join(text.split())) for text in _cited(losses)]
    return list(dict.fromkeys(match[1] for match in matches if match))


def papers(losses: Losses) -> list[str]:
    """BibTeX of the papers that the sources of the losses name in brackets, each once.

    A loss from elsewhere may name one that is not in `loss/papers.bib`, which is left out.
    """
    text = files("embedrun.loss").joinpath("papers.bib").read_text(encoding="utf-8")
    entries = {match[2]: match[1] for match in re.finditer(r"^(@\w+\{(\w+),\n.+?^\})$", text, re.M | re.S)}
    named = re.findall(r"\((\w+)\)", "\n".join(_cited(losses)))
    return [entries[name] for name in dict.fromkeys(named) if name in entries]


def _cited(losses: Losses) -> list[str]:
    docs = [inspect.getdoc(type(term)) or "" for term in losses.terms.values()]
    matches = [re.search(r"^Source: .+?(?=\n\s*\n|\Z)", doc, re.M | re.S) for doc in docs]
    return [match[0] for match in matches if match]


def _tensors(columns: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    # Copies: columns that are mapped from the disk cannot be written, and a term is free to do so.
    return {name: torch.tensor(values) for name, values in columns.items()}  # (rows,)


def compared(losses: Losses, rows: int) -> dict[str, str]:
    """What each term compares in a batch, at most: equal scores, copies of a text and labels exclude some."""
    return {key: terms.compared(term, rows, losses.views(key)) for key, term in losses.terms.items()}
