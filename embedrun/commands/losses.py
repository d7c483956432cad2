"""The loss terms of a run: what they read, whether the data gives it, and whether they can ever be active."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from embedrun.commands.families import build, family_name, without
from embedrun.config import Checker
from embedrun.errors import ConfigError
from embedrun.rows import FORMS

_COMMON = ("weight", "name", "views")  # options of every term; embedrun/loss/mix.py reads them
_NLI = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True)
class Losses:
    """What the terms of a mix read.

    Args:
        terms: the terms with a weight, by key.
        ways: how the views of each go through the encoder, by key and parameter.
        passes: the different ones of these, by their key.
        targets: columns of the data set.
        taught: views whose texts the teachers encode.
    """

    terms: dict[str, Any] = field(default_factory=dict)
    ways: dict[str, dict[str, Any]] = field(default_factory=dict)
    passes: dict[str, Any] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    taught: list[str] = field(default_factory=list)

    def idle(self, rows: int, columns: Mapping[str, Any] | None = None) -> list[str]:
        """Terms that can never do anything, each with its reason.

        Args:
            rows: of a batch.
            columns: targets of all training rows, as tensors; None: not read yet.
        """
        from embedrun.loss.terms import parameters_of

        found = []
        for key, term in self.terms.items():
            if not hasattr(term, "idle"):
                continue
            views = [name for name, way in self.ways[key].items() if way.key in self.passes]
            there = {**(columns or {}), **dict.fromkeys(views, True)}
            asked = [name for name in parameters_of(term, "idle") if name in there]
            if reason := term.idle(rows, **{name: there[name] for name in asked}):
                found.append(f"loss.terms.{key}: cannot work: {reason}")
        return found


def plan_losses(checker: Checker, plain: Mapping[str, Any], dataset: Any) -> Losses:
    """Build every term with a weight; notes those that are faulty, idle, or do not fit the data set.

    Args:
        checker: collects the faults.
        plain: the composed configuration.
        dataset: of the rows, or None where it is faulty itself.
    """
    losses = Losses()
    loss, training = plain.get("loss"), plain.get("training")
    terms = loss.get("terms") if isinstance(loss, Mapping) else None
    if not isinstance(terms, Mapping):
        return losses  # the schema has said so
    training = training if isinstance(training, Mapping) else {}
    teachers = training.get("teachers")
    count = len(teachers) if isinstance(teachers, list) else 0
    for key, options in terms.items():
        _plan_term(checker, losses, str(key), options, dataset, count)
    if not losses.terms and not checker.problems:
        checker.problems.append("loss.terms: no term has a weight above 0; choose loss=angle")
    rows = training.get("batch_size")
    if type(rows) is int and rows > 0:
        checker.problems += losses.idle(rows)
    if count and not losses.taught and not checker.problems:
        checker.problems.append(
            "training.teachers: no loss learns from teachers; choose loss=mse_teacher, loss=mse_embeddings "
            "or loss=rankcse, or leave it null"
        )
    return losses


def _plan_term(checker: Checker, losses: Losses, key: str, options: Any, dataset: Any, teachers: int) -> None:
    path = f"loss.terms.{key}"
    if not isinstance(options, Mapping):
        checker.problems.append(f"{path}: expected a mapping of options, got {options!r}")
        return
    weight = options.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
        checker.problems.append(f"{path}.weight: must be a finite number at least 0, got {weight!r}")
        return
    given = {"dim": 1, "teacher_dims": (1,) * teachers}  # known when the models are there; the counts are now
    term = build(checker, "loss", options.get("name", key), without(options, *_COMMON), path, given=given)
    ways = None if term is None else _ways(checker, path, term, options.get("views"))
    if ways is None or weight == 0:
        return
    losses.terms[key], losses.ways[key] = term, ways
    if dataset is not None:
        _fit(checker, losses, path, key, dataset, teachers)


def _ways(checker: Checker, path: str, term: Any, views: Any) -> dict[str, Any] | None:
    from embedrun.loss.terms import passes

    if views is not None and not isinstance(views, Mapping):
        checker.problems.append(f"{path}.views: expected a mapping by view, got {views!r}")
        return None
    try:
        return passes(term, views)
    except ValueError as faults:
        checker.problems += [f"{path}.{fault}" for fault in str(faults).splitlines()]
        return None


def _fit(checker: Checker, losses: Losses, path: str, key: str, dataset: Any, teachers: int) -> None:
    """Note what the term reads, and what of it the data set does not give."""
    from embedrun.loss.terms import IDENTITY, TEACHER, needs, source

    term, ways = losses.terms[key], losses.ways[key]
    asked, there = needs(term), FORMS[dataset.form]
    lacking = [ways[name].view for name in asked.views if ways[name].view not in there]
    used = {name: way for name, way in ways.items() if way.view in there}
    losses.passes.update({way.key: way for way in used.values()})
    for name in (*asked.targets, *asked.optional_targets):
        target = source(name, ways)
        if target.endswith(IDENTITY):
            continue
        if target.endswith(TEACHER):
            _teach(checker, losses, path, target.removesuffix(TEACHER), name in asked.targets, teachers)
        elif target in dataset.targets:
            losses.targets.extend([target] if target not in losses.targets else [])
        elif name in asked.targets:
            lacking.append(target)
    if lacking:
        has = ", ".join([*there, *dataset.targets])
        checker.problems.append(
            f"{path}: needs {', '.join(dict.fromkeys(lacking))}, which dataset={family_name(dataset)} does "
            f"not give (it gives {has}); choose another loss or another dataset"
        )


def _teach(checker: Checker, losses: Losses, path: str, view: str, needed: bool, teachers: int) -> None:
    if not teachers:
        if needed:
            checker.problems.append(
                f"{path}: learns from frozen encoders, and there is none; give training.teachers, such as "
                "'training.teachers=[{name: DIR}]'"
            )
    elif view not in losses.taught and any(way.view == view for way in losses.passes.values()):
        losses.taught.append(view)


def check_active(losses: Losses, batch_size: int, columns: Mapping[str, Any], rows: int) -> None:
    """Refuse terms that these rows can never make active.

    Args:
        losses: of the run.
        batch_size: as configured; fewer rows make a smaller batch.
        columns: targets of all training rows, as arrays.
        rows: how many there are.

    Raises:
        ConfigError: with every such term.
    """
    import torch

    tensors = {name: torch.from_numpy(values) for name, values in columns.items()}
    if problems := losses.idle(min(batch_size, rows), tensors):
        raise ConfigError(problems)


def contradiction(losses: Losses, columns: Mapping[str, Any]) -> str | None:
    """A warning where labels and scores that one term reads order the pairs against each other, or None.

    NLI labels are 0 entailment, 1 neutral, 2 contradiction, so scores should fall from label to label. Where
    they do not, two of the constants are probably swapped.

    Args:
        losses: of the run.
        columns: targets of all training rows, as arrays.
    """
    both = {"label", "score"}
    if not any(both <= set(getattr(term, "requires", ())) for term in losses.terms.values()):
        return None
    label, score = columns["label"], columns["score"]
    means = [
        (name, float(score[label == code].mean())) for code, name in enumerate(_NLI) if (label == code).any()
    ]
    if all(one[1] > next_[1] for one, next_ in pairwise(means)):
        return None
    each = ", ".join(f"{name} {mean:.3g}" for name, mean in means)
    return (
        f"labels and scores contradict each other: the mean scores are {each}, and they should fall in this "
        "order (label 0 entailment, 1 neutral, 2 contradiction); are two of them swapped?"
    )


def sources(losses: Losses) -> list[str]:
    """The papers behind the losses, each once, as the classes of the terms cite them."""
    cited = []
    for term in losses.terms.values():
        text = " ".join((inspect.getdoc(type(term)) or "").split())
        # Up to the end of the sentence or its first half; a full stop after `Eq` ends neither.
        found = re.search(r"Source: (.+?)(?:;|(?<!\bal)(?<!Eq)(?<!Sec)\.)(?= |$)", text)
        cited += [found[1]] if found else []
    return list(dict.fromkeys(cited))
