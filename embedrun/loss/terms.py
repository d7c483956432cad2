"""What a loss term is and reads, and the refusal of impossible options.

A term is a module of torch whose `forward` gives the scalar loss of views and targets, which the names of its
parameters say. Its class may offer ten things more. `passes` says, by parameter of `forward`, how a view
goes through the encoder. `requires` are the parameters with a default that it cannot do without, `unused`
those that its options do not read, and `one_of` those of which it needs one. `comparisons`, called as
`forward` is, gives the shares of active and of violated comparisons of a batch, and `compared` says how many
there are at most. `idle` says why rows can never make it active, `positives` which of them it takes for
positives; the parameters of both name the targets that they look at. `pulled` names the two parameters that
it pulls together in every row. One that `reads_tokens` gets hidden states of chosen tokens, not vectors of
texts, and has `masked`, the share of them.
"""

import inspect
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import NamedTuple, TypeVar

from torch import Tensor, nn

from embedrun.config import Checker
from embedrun.config.options import option
from embedrun.rows import MASKED, numbered_negatives

T = TypeVar("T")
Term = nn.Module
AnyTerm = Term | type[Term]  # a term, or a class of terms

# Names of embeddings among the parameters of a term's `forward`; any other name is a target.
VIEWS = ("left", "right", "negative", "text", "text_again", "masked_once", "masked_twice")
GIVEN = ("dim", "teacher_dims", "head")  # parameters of a constructor that the run fills in, not the user
SEVERAL = "negatives"  # `**negatives` of `forward` are the vectors of `negative_1`, `negative_2` and so on
TEACHER = "_teacher"  # `left_teacher` is the teachers' vectors of the texts behind `left`
IDENTITY = "_identity"  # `left_identity` is equal for equal texts behind `left`


@dataclass(frozen=True)
class Pass:
    """How one view of the rows goes through the encoder; equal passes are computed once."""

    view: str
    draw: int = option(0, unit="number of an independent dropout mask", at_least=0)
    dropout: bool = True
    max_length: int | None = option(None, unit="tokens of a text, special ones too", at_least=4)

    def __post_init__(self) -> None:
        if not self.dropout:  # nothing is drawn, so passes that differ in it are one
            object.__setattr__(self, "draw", 0)

    @property
    def key(self) -> str:
        """The name of its vectors: that of the view where all else has its default."""
        draw = f"#{self.draw}" if self.draw else ""
        dropout = "" if self.dropout else "-dropout"
        return f"{self.view}{draw}{dropout}" + (f"[:{self.max_length}]" if self.max_length else "")


@dataclass(frozen=True)
class Masked(Pass):
    """A pass of which the hidden states of chosen tokens are read, this share of them."""

    share: float = 0.0

    @property
    def key(self) -> str:
        """The name of its states."""
        return f"{super().key} with {100 * self.share:g} % masked"


class Needs(NamedTuple):
    """What the `forward` of a term asks for, by parameter, and what it also takes if it is there."""

    views: list[str]
    targets: list[str]
    optional_views: list[str]
    optional_targets: list[str]


class Positives(NamedTuple):
    """How many of the training rows a term takes for positives, and what makes a row one, in words."""

    rows: int
    rule: str


def idle(term: Term, rows: int, there: Mapping[str, Tensor | bool]) -> str | None:
    """Why a term can never do anything; None where it can, or does not say.

    Args:
        term: any.
        rows: of a batch.
        there: targets of all training rows as far as they are read, and True for each view.
    """
    return None if (method := getattr(term, "idle", None)) is None else method(rows, **_args(method, there))


def positives(term: Term, columns: Mapping[str, Tensor]) -> Positives | None:
    """Which rows a term takes for positives; None where it does not choose.

    Args:
        term: any.
        columns: targets of all training rows.
    """
    return None if (method := getattr(term, "positives", None)) is None else method(**_args(method, columns))


def _args(method: object, there: Mapping[str, T]) -> dict[str, T]:
    parameters = inspect.signature(method).parameters  # type: ignore[arg-type]
    return {name: value for name, value in there.items() if name in parameters}


def compared(term: Term, rows: int, views: Collection[str]) -> str:
    """What a batch gives a term to compare, at most.

    Args:
        term: any.
        rows: of a batch, over all processes.
        views: parameters of its `forward` that it gets.
    """
    method = getattr(term, "compared", None)
    return f"whatever it does with {rows:,} rows" if method is None else method(rows, views)


def needs(term: AnyTerm) -> Needs:
    """What a term, or a class of terms, asks for.

    Parameters with the default None are optional, unless the term names them in `requires`: options can
    make a parameter necessary.
    """
    parameters = {name: arg for name, arg in parameters_of(term, "forward").items() if not _several(arg)}
    required, unused = getattr(term, "requires", ()), getattr(term, "unused", ())
    optional = [name for name, arg in parameters.items() if arg.default is None and name not in required]
    wanted = [name for name in parameters if name not in optional]
    optional = [name for name in optional if name not in unused]
    return Needs(
        views=[name for name in wanted if name in VIEWS],
        targets=[name for name in wanted if name not in VIEWS],
        optional_views=[name for name in optional if name in VIEWS],
        optional_targets=[name for name in optional if name not in VIEWS],
    )


def _several(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.VAR_KEYWORD and parameter.name == SEVERAL


def parameters_of(term: AnyTerm, method: str) -> dict[str, inspect.Parameter]:
    """The parameters of a method of a term or class, without `self`."""
    cls = term if isinstance(term, type) else type(term)
    return dict(list(inspect.signature(getattr(cls, method)).parameters.items())[1:])


def given(cls: type, values: Mapping[str, T]) -> dict[str, T]:
    """Those values that the constructor of a class asks the run for."""
    names = inspect.signature(cls.__init__).parameters
    return {name: value for name, value in values.items() if name in names}


def passes(term: AnyTerm, changes: Mapping[str, object] | None = None) -> dict[str, Pass]:
    """How each view of a term goes through the encoder, by parameter.

    A class of terms may have `passes`, by parameter; any other view has the defaults of `Pass`. `changes` is
    the term's option `views`, by parameter: the name of another view, null to leave an optional view out, or
    a mapping with any of `view`, `draw`, `dropout` and `max_length`.

    Raises:
        ValueError: with every fault of `changes`, one a line.
    """
    changes, needed, usual = changes or {}, needs(term), getattr(term, "passes", {})
    names = (*needed.views, *needed.optional_views)
    problems = [
        f"views: no view {name!r} (it has: {', '.join(names)})" for name in changes if name not in names
    ]
    ways: dict[str, Pass] = {}
    for name in names:
        change = changes.get(name, {})
        if change is None and name in needed.optional_views:
            continue
        try:
            ways[name] = _changed(usual.get(name, Pass(name)), change)
        except ValueError as fault:
            problems += [f"views.{name}{problem}" for problem in str(fault).splitlines()]
    problems += [
        f"views: {name} and {other} are one pass of {ways[name].view}, so their vectors are equal; give one "
        "of them another view or draw"
        for name, other in combinations(ways, 2)
        if ways[name] == ways[other]
    ]
    if problems:
        raise ValueError("\n".join(problems))
    return ways


def _changed(usual: Pass, change: object) -> Pass:
    """A pass with these changes; ValueError with every fault of them, one a line."""
    change = {"view": change} if isinstance(change, str) else change
    if not isinstance(change, Mapping):
        raise ValueError(f": expected a view or a mapping of its options; got {change!r}")
    checker = Checker()
    way = checker.build(Pass, asdict(usual) | dict(change))
    if way is None:
        raise ValueError("\n".join(f".{problem}" for problem in checker.problems))
    if way.view not in VIEWS and not numbered_negatives([way.view]):
        raise ValueError(
            f".view: expected one of {', '.join(VIEWS)}, negative_1, negative_2 and so on; got {way.view!r}"
        )
    return way


def with_negatives(term: AnyTerm, ways: Mapping[str, Pass], count: int) -> dict[str, Pass]:
    """The passes of a term whose rows have `count` numbered hard negatives in place of `negative`.

    Each of them goes through the encoder as `ways`, those of `passes`, says of `negative`. Where that is none
    or another view, nothing changes.

    Raises:
        ValueError: if the term takes one hard negative and there are more.
    """
    usual = ways.get("negative")
    if not count or usual is None or usual.view != "negative":
        return dict(ways)
    names = (f"negative_{number}" for number in range(1, count + 1))
    numbered = {name: replace(usual, view=name) for name in names}
    if any(map(_several, parameters_of(term, "forward").values())):
        return {name: way for name, way in ways.items() if name != "negative"} | numbered
    if count > 1:
        raise ValueError(
            f"takes one hard negative of a row, and the rows have {count}; choose one with "
            "views={negative: negative_1}, or choose a loss that takes several (loss=simcse_supervised)"
        )
    return {**ways, "negative": numbered["negative_1"]}


def used(ways: Mapping[str, Pass], views: Container[str]) -> dict[str, Pass]:
    """Those passes, by key and each once, whose view the rows have."""
    return {way.key: way for way in ways.values() if way.view in views}


def source(target: str, ways: Mapping[str, Pass]) -> str:
    """The name of a target of the rows behind a parameter of a term: `left_teacher` may be `text_teacher`."""
    for ending in (TEACHER, IDENTITY):
        parameter = target.removesuffix(ending)
        if parameter != target and parameter in ways:
            return ways[parameter].view + ending
    return target


def reads_tokens(term: AnyTerm) -> bool:
    """Whether a term, or a class of terms, gets hidden states of tokens, not vectors of texts."""
    return getattr(term, "reads_tokens", False)


def masked_passes(term: Term, views: Iterable[str]) -> dict[str, Pass]:
    """Those of a term that reads tokens, by view: every text of the rows that is no masked copy."""
    return {view: Masked(view, share=term.masked) for view in views if view not in MASKED}  # type: ignore[arg-type]


def require_positive(term: str, option: str, value: float) -> None:
    """Raise ValueError, naming the term and the option, unless ``value`` is above 0."""
    # Not `value <= 0`: NaN must be refused too.
    if not value > 0:
        raise ValueError(f"{term}: {option} must be > 0, got {value}")


def require_scale(term: str, value: float) -> None:
    """Raise ValueError unless ``value`` is at least 1: a scale multiplies; a small one is a temperature."""
    if not value >= 1:
        hint = f"; a temperature of {value} is scale={1 / value:g}" if value > 0 else ""
        raise ValueError(f"{term}: scale multiplies the similarity and must be >= 1, got {value}{hint}")


def require_shape(term: str, name: str, values: Tensor, *shape: int | None) -> None:
    """Raise ValueError unless a tensor has this shape, None being any length; broadcasting would hide it."""
    if values.ndim != len(shape) or any(
        wanted not in (None, length) for length, wanted in zip(values.shape, shape, strict=True)
    ):
        accepted = ", ".join("any" if length is None else str(length) for length in shape)
        accepted += "," * (len(shape) == 1)
        raise ValueError(f"{term}: {name} must have shape ({accepted}), got {tuple(values.shape)}")


def nothing_to_order(rows: int, score: Tensor | None) -> str | None:
    """Why no two rows of a batch can differ in their scores, or None.

    `score`, ``(rows,)``, is that of all training rows, None where they are not known yet.
    """
    if rows < 2:
        return "a batch of one row has nothing to compare; raise training.batch_size"
    if score is not None and len(score.unique()) < 2:
        return "all scores of the training rows are equal"
    return None


ALONE = "each row by itself, no negatives"


def negatives(count: int, which: str) -> str:
    """What a term compares that has these negatives."""
    return f"{count:,} negatives an anchor: {which}"


def pairs_of_rows(rows: int, which: str) -> str:
    """What a term compares that has, of the pairs of this many rows, such pairs."""
    return f"up to {max(rows, 1) * max(rows - 1, 0) // 2:,} pairs of rows, those {which}"


def order_of_texts(rows: int) -> str:
    """What a term compares that holds one order of the batch against another."""
    return f"the order of {rows:,} texts, for each row"
