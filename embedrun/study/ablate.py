"""A recipe with one thing left out or replaced at a time: its runs, and what each thing is worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from embedrun.config import nearest
from embedrun.errors import ConfigError
from embedrun.evaluation.seeds import Spread
from embedrun.files import Plain
from embedrun.study.claims import Claim, Decision, Runs, decide
from embedrun.study.drawn import scored
from embedrun.table.cells import Measured
from embedrun.table.preset import Cell, Column, Row, Table

FULL = "the full recipe"
_TERMS = "loss.terms"


def changes(config: Plain, drops: Sequence[str], sets: Sequence[str]) -> dict[str, str]:
    """The overrides that leave out or replace one thing each, by what they do; ConfigError for none.

    Args:
        config: the full recipe.
        drops: `loss.terms` for each term of the mix, or one of them.
        sets: `option=value,value`.
    """
    terms = {key: term for key, term in config["loss"]["terms"].items() if term.get("weight", 1) > 0}
    known = [_TERMS, *(f"{_TERMS}.{key}" for key in terms)]
    problems, found = [], {}
    for drop in drops:
        if drop not in known:
            problems.append(
                f"--drop {drop}: no such part{nearest(drop, known)} (there are: {', '.join(known)})"
            )
        elif len(terms) < 2:
            problems.append(f"--drop {drop}: the recipe has one term; replace it with --set loss=...")
        else:
            keys = list(terms) if drop == _TERMS else [drop.removeprefix(f"{_TERMS}.")]
            found |= {f"without {key}": f"{_TERMS}.{key}.weight=0" for key in keys}
    for option, values in (text.partition("=")[::2] for text in sets):
        if not values:
            problems.append(f"--set {option}: expected option=value,value, as pooling=cls,max")
        found |= {f"{option}={value}": f"{option}={value}" for value in values.split(",") if value}
    if not problems and not found:
        problems.append("nothing is left out or replaced; give --drop loss.terms or --set option=value,value")
    if problems:
        raise ConfigError([f"embedrun ablate: {problem}" for problem in problems])
    return found


def table_of(overrides: Sequence[str], found: Mapping[str, str], seeds: Sequence[int]) -> Table:
    """The recipe and each change of it as the rows of a table; its column stands for the main score."""
    given = {FULL: (), **{label: (change,) for label, change in found.items()}}
    rows = [
        Row(label, cells=(Cell("train", (*overrides, *change), ("score",)),))
        for label, change in given.items()
    ]
    return Table(
        name="ablate", title="Ablation", rows=rows, seeds=list(seeds), columns=(Column("score", key="main"),)
    )


@dataclass(frozen=True)
class Worth:
    """What a change costs: the scores of its runs, and the decision on whether the full recipe is better."""

    label: str
    spread: Spread | None
    decision: Decision


def worths(runs: Mapping[str, Mapping[int, Measured]], key: str) -> list[Worth]:
    """What each change costs in the score `key`, the most expensive first; each needs two seeds.

    Differences are the full recipe's score less that of the change, decided by
    :func:`~embedrun.study.claims.decide` over seeds and resampled rows together, with Holm's correction over
    all changes.
    """
    drawn: Runs = {
        label: {seed: scored(run.path, key) for seed, run in by_seed.items()}
        for label, by_seed in runs.items()
    }
    labels = [label for label in runs if label != FULL]
    decisions = decide([Claim(label, FULL, label) for label in labels], drawn)
    every = [
        Worth(label, Spread.of([run.score for run in drawn[label].values()]), decision)
        for label, decision in zip(labels, decisions, strict=True)
    ]
    return sorted(every, key=lambda worth: -worth.decision.estimate.mean)
