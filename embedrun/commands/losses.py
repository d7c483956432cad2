"""The loss terms of a run: what they read, whether the data gives it, and whether they fit each other."""

import inspect
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from embedrun import family
from embedrun.config import Checker
from embedrun.family import build, family_name, without
from embedrun.rows import views_of

_COMMON = ("weight", "name", "views")  # options of every term; embedrun/loss/mix.py reads them
_KEY = re.compile(r"[A-Za-z]\w*", re.ASCII)
_NO_TEACHER = (
    "learns from frozen encoders, and there is none; give training.teachers, such as "
    "'training.teachers=[{name: DIR}]'"
)


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

    def positives(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Which rows are positives, by key, for the terms that choose them by a score or a label.

        Args:
            columns: targets of all training rows, as tensors.
        """
        from embedrun.loss.terms import parameters_of

        return {
            key: term.positives(
                **{name: columns[name] for name in parameters_of(term, "positives") if name in columns}
            )
            for key, term in self.terms.items()
            if hasattr(term, "positives")
        }


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
    if not _can_be_key(key):
        checker.problems.append(f"{path}: not a name for a term; give another key, with name: for the term")
        return
    name = options.get("name", key)
    if not teachers and _asks_for_teachers(name):
        checker.problems += [f"{path}: {_NO_TEACHER}"] if weight else []
        return
    given = {"dim": 1, "teacher_dims": (1,) * teachers}  # known when the models are there; the counts are now
    term = build(checker, "loss", name, without(options, *_COMMON), path, given=given)
    ways = None if term is None else _ways(checker, path, term, options.get("views"))
    if ways is None or weight == 0:
        return
    losses.terms[key], losses.ways[key] = term, ways
    if dataset is not None:
        _fit(checker, losses, path, key, dataset, teachers, named=options.get("views") or ())


def _can_be_key(key: str) -> bool:
    from torch.nn import ModuleDict

    return _KEY.fullmatch(key) is not None and not hasattr(ModuleDict, key)


def _asks_for_teachers(name: Any) -> bool:
    if name not in family.names("loss"):
        return False
    return "teacher_dims" in inspect.signature(family.find("loss", name).__init__).parameters


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


def _fit(
    checker: Checker,
    losses: Losses,
    path: str,
    key: str,
    dataset: Any,
    teachers: int,
    named: Container[str],
) -> None:
    """Note what the term reads, and what of it the data set does not give; `named` views must be there."""
    from embedrun.loss.terms import IDENTITY, TEACHER, needs, source, used

    term, ways = losses.terms[key], losses.ways[key]
    asked, there = needs(term), views_of(dataset)
    wanted = [*asked.views, *(name for name in asked.optional_views if name in named)]
    lacking = [ways[name].view for name in wanted if name in ways and ways[name].view not in there]
    losses.passes.update(used(ways, there))
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
            checker.problems.append(f"{path}: {_NO_TEACHER}")
    elif view not in losses.taught and any(way.view == view for way in losses.passes.values()):
        losses.taught.append(view)
