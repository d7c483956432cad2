"""What every term has: needs, shapes and options that are held, gradients, finite values in any precision."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

import pytest
import torch
from no_cost import assert_costs_and_moves_nothing
from torch import Tensor, nn

from embedrun import family
from embedrun.loss.gated_angular import Gate
from embedrun.loss.rank_distillation import Method
from embedrun.loss.terms import TEACHER, VIEWS, needs, reads_tokens

Columns = dict[str, Tensor]


def forms(name: str, **options: Sequence[Any]) -> list[tuple[str, dict[str, Any]]]:
    """The term once with every combination of its options."""
    return [(name, dict(zip(options, chosen, strict=True))) for chosen in product(*options.values())]


# Each term once in every form that has a code of its own.
TERMS: list[tuple[str, dict[str, Any]]] = [
    ("angle", {}),
    ("angle", {"delta": "phase", "direction": "similar_small"}),
    ("angle", {"delta": "modulus"}),
    ("arccon", {"negatives": "both"}),
    ("arccon", {"margin": 0, "negatives": "first"}),
    ("cosent", {}),
    *forms("gated_angular", gate=get_args(Gate)),
    ("in_batch_negatives", {}),
    ("in_batch_negatives", {"identical_texts": "add", "positive_by": "label"}),
    ("in_batch_negatives", {"sides": "one"}),
    ("in_batch_negatives", {"sides": "one", "identical_texts": "off"}),
    ("infonce", {}),
    ("infonce", {"direction": "both", "mask": {"margin": 0.1}}),
    ("infonce", {"direction": "positive", "mask": {"teacher": True}}),
    ("kl", {"temperature": 0.5}),
    ("margin_mse", {"similarity": "cosine"}),
    ("masked_triplet", {"margin": 2.5}),  # a gap is at least -2: every row is active, away from the kink
    *forms("mse", source=["precomputed", "teacher"]),
    ("mse_embeddings", {"dim": 4, "teacher_dims": (3, 2)}),
    ("rank_consistency", {}),
    *forms("rank_distillation", method=get_args(Method), teacher_dims=[(3, 2)]),
    *forms("rank_margin", interval=[1], ties=["average", "ordinal"]),
    ("softmax_nli", {"dim": 4}),
    ("softmax_nli", {"dim": 4, "classes": 4}),
    ("supcon", {}),
]
# Options that no formula can use, and what is said of them.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *(
        (name, {"temperature": value}, f"temperature must be > 0, got {value}")
        for name in (
            "angle",
            "arccon",
            "cosent",
            "in_batch_negatives",
            "infonce",
            "kl",
            "rank_consistency",
            "supcon",
        )
        for value in (0.0, math.nan)
    ),
    ("arccon", {"margin": 180.5}, "margin must be 0 to 180 degrees, got 180.5"),
    ("arccon", {"margin": math.nan}, "margin must be 0 to 180 degrees, got nan"),
    ("infonce", {"mask": {"margin": 3}}, "mask takes margin, 0 to 2, and teacher, true or false"),
    ("infonce", {"mask": {"margn": 0.1}}, "mask takes margin, 0 to 2, and teacher, true or false"),
    ("kl", {"teacher_temperature": 0.0}, "teacher_temperature must be > 0, got 0.0"),
    ("softmax_nli", {"dim": 4, "classes": 1}, "classes must be at least 2, got 1"),
    ("gated_angular", {"scale": 0.5}, "scale multiplies .* got 0.5; a temperature of 0.5 is scale=2"),
    ("masked_triplet", {"margin": math.nan}, "margin must be >= 0, got nan"),
    *(
        ("rank_distillation", {**options, "teacher_dims": (3, 4)}, message)
        for options, message in [
            ({"temperature": 0.0}, "temperature must be > 0, got 0.0"),
            ({"teacher_temperature": -1.0}, "teacher_temperature must be > 0, got -1.0"),
            ({"weights": [1.0]}, "weights has 1 numbers and training.teachers has 2; give one weight"),
            ({"weights": [0.5, 0.6]}, r"weights must be >= 0 and sum to 1, got \[0.5, 0.6\]"),
            ({"weights": [1.0, math.nan]}, r"weights must be >= 0 and sum to 1, got \[1.0, nan\]"),
        ]
    ),
    ("rank_margin", {"interval": math.nan}, "interval must be at least 0 ranks, got nan"),
    ("rank_margin", {"scale": 0.05}, "scale multiplies .* got 0.05; a temperature of 0.05 is scale=20"),
]
# A batch of one row teaches these nothing.
IDLE_ALONE = {
    "angle", "arccon", "cosent", "gated_angular", "in_batch_negatives", "infonce", "rank_consistency",
    "rank_distillation", "rank_margin", "supcon",
}  # fmt: skip
every = pytest.mark.parametrize(
    ("name", "options"),
    TERMS,
    ids=["-".join([name, *(str(value) for value in options.values())]) for name, options in TERMS],
)


def make(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(0)
    return family.find("loss", name)(**options).to(dtype)


def columns_of(term: nn.Module, rows: int = 8) -> Columns:
    """Everything that a term can read."""
    generator = torch.Generator().manual_seed(19)
    asked = needs(term)
    teacher = torch.randn(8, 2, 3, dtype=torch.float64, generator=generator)
    teacher[:, 1, 2] = 0  # the second is narrow
    targets = {
        "score": torch.tensor([0.9, -0.4, 0.1, 0.5, -0.6, 0.1, -1.0, 1.0]).double(),
        "label": torch.tensor([0, 2, 1, 0, 2, 1, 1, 0]),
        "left_identity": torch.tensor([0, 1, 0, 3, 4, 5, 6, 7]),
        "right_identity": torch.tensor([8, 9, 10, 3, 4, 5, 11, 12]),
        "hard_negatives": torch.tensor([1, 0, 1, 1, 0, 1, 1, 1]),
        "maskable": torch.tensor([True, True, False, True, True, True, True, True]),
        "left_teacher": teacher,
        "right_teacher": teacher.roll(1, dims=0),
        "category": torch.tensor([0, 0, 1, 2, 1, 0, 2, 1]),
        "scores": torch.tensor([[0.9, 0.2], [0.4, 0.5], [1.0, -1.0], [0.3, torch.nan]] * 2).double(),
    }
    columns = {
        view: torch.randn(8, 4, dtype=torch.float64, generator=generator)
        for view in (*asked.views, *asked.optional_views)
    }
    columns |= {name: targets[name] for name in (*asked.targets, *asked.optional_targets)}
    if "score" in asked.optional_targets and "negative" in columns:  # which stands in place of a score
        columns = {key: one for key, one in columns.items() if not key.endswith(("negative", "negatives"))}
    return {name: column[:rows].clone() for name, column in columns.items()}


UNREAD = ("gated_angular", "in_batch_negatives", "mse", "softmax_nli")  # terms with targets for some options
A, B = [0.6, 0.8, 0.1, -0.3], [0.5, 0.1, 0.2, 0.7]
ZERO = [0.0, 0.0, 0.0, 0.0]
# Pairs with a zero vector on either side and on both, equal, opposite, of the same direction, generic.
EDGES = ([ZERO, B, ZERO, A, A, A, A, B], [A, ZERO, ZERO, A, [-x for x in A], [100 * x for x in A], B, A])


def edge_columns(term: nn.Module, dtype: torch.dtype) -> Columns:
    columns = columns_of(term)
    for place, view in enumerate(view for view in columns if view in VIEWS):
        columns[view] = torch.tensor(EDGES[place % 2]).roll(place // 2, dims=0).to(dtype)
    for name in columns:
        if name.endswith(TEACHER):
            columns[name] = columns[name].float()
            columns[name][0] = 0
    return columns


def test_every_term_is_here():
    of_vectors = {name for name in family.names("loss") if not reads_tokens(family.find("loss", name))}
    assert {name for name, _ in TERMS} == of_vectors


def test_options_that_no_formula_can_use_are_refused():
    for name, options, message in REFUSED:
        with pytest.raises(ValueError, match=f"{family.class_name(name)}: {message}"):
            make(name, options)


@every
def test_gradient_agrees_with_finite_differences_for_vectors_and_weights(name: str, options: dict[str, Any]):
    term = make(name, options)
    columns = columns_of(term)
    views = [view for view in VIEWS if view in columns]
    weights = {key: one.detach() for key, one in term.named_parameters()}

    def loss(*leaves: Tensor) -> Tensor:
        vectors = dict(zip(views, leaves, strict=False))
        given = dict(zip(weights, leaves[len(views) :], strict=True))
        return torch.func.functional_call(term, given, kwargs=columns | vectors)

    leaves = [*(columns[view] for view in views), *weights.values()]
    assert torch.autograd.gradcheck(loss, tuple(leaf.requires_grad_() for leaf in leaves))


@every
def test_neither_order_of_the_rows_nor_lengths_of_the_vectors_matter(name: str, options: dict[str, Any]):
    term = make(name, options)
    columns = columns_of(term)
    lengths = torch.tensor([0.01, 3, 7, 100, 1, 0.2, 9, 0.5], dtype=torch.float64)
    scaled = {
        key: torch.einsum("r...,r->r...", column, lengths)
        if key in VIEWS or key.endswith(TEACHER)
        else column
        for key, column in columns.items()
    }
    same = torch.allclose(term(**columns), term(**scaled))
    assert same == (not list(term.parameters()))
    if options.get("ties") == "ordinal":  # ranks of equal scores follow the rows
        columns["score"] = torch.arange(8.0)
    order = torch.tensor([3, 0, 7, 5, 1, 4, 6, 2])
    moved = {key: column[order] for key, column in columns.items()}
    torch.testing.assert_close(term(**columns), term(**moved))


def test_only_the_order_of_scores_and_labels_matters():
    for name in ("angle", "cosent", "gated_angular", "rank_margin"):
        term = make(name, {})
        columns = columns_of(term)
        other = {**columns, "score": columns["score"] ** 3 - 100}
        if "label" in columns:
            other["label"] = columns["label"] * 7 - 3
        torch.testing.assert_close(term(**columns), term(**other))


def test_sides_can_be_swapped():
    for name in ("cosent", "gated_angular", "rank_consistency", "rank_margin"):
        term = make(name, {})
        columns = columns_of(term)
        swapped = {**columns, "left": columns["right"], "right": columns["left"]}
        torch.testing.assert_close(term(**columns), term(**swapped))


def test_a_batch_is_idle_where_it_costs_and_compares_nothing():
    for name, options in TERMS:
        for rows in (1, 2):
            assert_idle_as_it_says(name, options, rows)


def assert_idle_as_it_says(name: str, options: dict[str, Any], rows: int) -> None:
    term = make(name, options)
    columns = columns_of(term, rows)
    if "scores" not in columns:  # which are of these
        columns.pop("negative", None)
    views = [columns[view].requires_grad_() for view in VIEWS if view in columns]
    value = term(**columns)
    reason = term.idle(rows) if hasattr(term, "idle") else None
    if rows == 1:
        assert (reason is not None) == (name in IDLE_ALONE)
    if reason is None:
        assert value > 0 or "mask" in options  # which may leave no candidate
        return
    assert_costs_and_moves_nothing(value, *views)
    if hasattr(term, "comparisons"):
        assert [share.item() for share in term.comparisons(**columns)] == [0, 0]


def test_equal_scores_of_all_rows_are_idle():
    for name in ("angle", "cosent", "rank_margin"):
        term = family.find("loss", name)()
        assert term.idle(64, torch.ones(5)) == "all scores of the training rows are equal"
        assert term.idle(64, torch.tensor([0.1, 0.1, 0.2])) is None


def test_columns_of_other_shapes_are_refused():
    for name, options in TERMS:
        assert_other_shapes_are_refused(name, options)


def assert_other_shapes_are_refused(name: str, options: dict[str, Any]) -> None:
    term = make(name, options)
    columns = columns_of(term)
    if "scores" not in columns:
        columns.pop("negative", None)  # there may be any number of them
    faults = (ValueError, RuntimeError, IndexError) if name == "softmax_nli" else ValueError
    unread = needs(term).optional_targets if name in UNREAD else []
    for key in columns.keys() - {*unread}:
        column = columns[key]
        others = [column[:1]]  # would be broadcast
        if key not in VIEWS:
            others.append(column[:, :1] if key.endswith(TEACHER) else column[:, None])
        for other in others:
            with pytest.raises(faults, match="got" if faults is ValueError else None):
                term(**columns | {key: other})


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@every
def test_value_and_gradient_are_finite_at_zero_equal_and_opposite_vectors(name: str, options: dict[str, Any]):
    for dtype in (torch.float64, torch.float16):
        assert_finite_at_edges(name, options, dtype)


def assert_finite_at_edges(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    term = make(name, options, torch.float32)
    columns = edge_columns(term, dtype)
    views = [columns[view].requires_grad_() for view in VIEWS if view in columns]
    with torch.autograd.detect_anomaly():  # a NaN inside counts, even if a mask hides it in the end
        value = term(**columns)
        value.backward()
    assert torch.isfinite(value)
    assert value.ndim == 0
    leaves = [*views, *term.parameters()]
    for leaf in leaves:
        assert leaf.grad is not None
        assert torch.isfinite(leaf.grad).all()
        assert leaf.grad.abs().max() < 1e4  # nor is a zero vector thrown away by a factor of 1e12


def test_result_under_autocast_is_that_in_float32():
    for name, options in TERMS:
        term = make(name, options, torch.float32)
        columns = edge_columns(term, torch.bfloat16)
        wide = {key: one.float() if key in VIEWS else one for key, one in columns.items()}
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = term(**columns)
        assert value.dtype == torch.float32, name
        assert torch.equal(value, term(**wide)), name


def test_comparisons_are_those_of_the_first_512_rows():
    for name in (
        "angle",
        "arccon",
        "cosent",
        "gated_angular",
        "in_batch_negatives",
        "infonce",
        "masked_triplet",
    ):
        term = make(name, {})
        columns = {
            key: torch.cat([column] * 75) for key, column in columns_of(term).items() if key != "negative"
        }
        for key in columns.keys() & {"left_identity", "right_identity"}:
            columns[key] = torch.arange(600) + 600 * (key == "right_identity")
        expected = term.comparisons(**{key: column[:512] for key, column in columns.items()})
        for key in columns.keys() & {*VIEWS}:
            columns[key][512:] = columns[key][512:].flip(1)
        for key in columns.keys() & {"label", "score"}:
            columns[key][512:] = 3
        assert term.comparisons(**columns) == expected, name
