"""What holds for whole terms, from embeddings to gradients of embeddings, whatever the batch."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any, get_args

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from embedrun import family
from embedrun.loss import ordered_pairs
from embedrun.loss.angle import Angle, Delta, Direction
from embedrun.loss.cosent import Cosent
from embedrun.loss.gated_angular import Gate, GatedAngular
from embedrun.loss.rank_margin import RankMargin
from embedrun.loss.terms import TEACHER, VIEWS, needs

Columns = dict[str, Tensor]

RANKING: dict[str, nn.Module] = {
    "cosent": Cosent(),
    **{
        f"angle-{delta}-{direction}": Angle(temperature=0.05, delta=delta, direction=direction)
        for delta, direction in product(get_args(Delta), get_args(Direction))
    },
    # By row, ordinal ranks change with the order of the rows.
    **{f"rank_margin-{ties}": RankMargin(ties=ties) for ties in ("average", "min", "dense")},
    **{f"gated_angular-{gate}": GatedAngular(gate=gate) for gate in get_args(Gate)},
}
BY_HALVES = [name for name in RANKING if "sum" in name or "phase" in name]
EXAMPLES = settings(max_examples=10, derandomize=True, deadline=None)
# One seed gives all rows: shrinking to a small batch is worth more than shrinking single numbers.
BATCHES = {
    "seed": st.integers(0, 2**31),
    "rows": st.integers(0, 300),
    "scores": st.sampled_from([1, 2, 6, 10**6]),  # different ones: 1 is a constant, 2 is mostly ties
}


@contextmanager
def sorting(*, always: bool) -> Iterator[None]:
    """Sorted sums only, or sums over all pairs only."""
    first = 1 if always else 10**9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered_pairs, "SORTED_FROM", {"cpu": first, "cuda": first})
        yield


def draw(seed: int, rows: int, scores: int) -> tuple[Columns, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    left, right = torch.randn(2, rows, 6, dtype=torch.float64, generator=generator)
    label = torch.randint(3, (rows,), generator=generator)
    score = torch.randint(scores, (rows,), generator=generator).double()
    return {"left": left, "right": right, "label": label, "score": score}, generator


def value_and_gradients(term: nn.Module, columns: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, and the gradient of every view that it reads."""
    asked = needs(term)
    taken = {name: columns[name] for name in (*asked.views, *asked.targets)}
    leaves = {name: taken[name].clone().requires_grad_() for name in asked.views}
    value = term(**taken | leaves)
    return value.detach(), dict(zip(leaves, torch.autograd.grad(value, list(leaves.values())), strict=True))


def assert_same(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, other[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("always", [False, True], ids=["all pairs", "sorted"])
@pytest.mark.parametrize("name", RANKING)
@EXAMPLES
@given(**BATCHES)
@example(seed=0, rows=0, scores=6)
@example(seed=0, rows=1, scores=6)
@example(seed=0, rows=300, scores=6)
def test_order_of_the_pairs_changes_no_value_and_moves_gradients_along(
    name: str, always: bool, seed: int, rows: int, scores: int
):
    columns, generator = draw(seed, rows, scores)
    order = torch.randperm(rows, generator=generator)
    with sorting(always=always):
        value, gradients = value_and_gradients(RANKING[name], columns)
        other, moved = value_and_gradients(RANKING[name], {key: one[order] for key, one in columns.items()})
    torch.testing.assert_close(value, other, rtol=1e-12, atol=1e-14)
    assert_same({key: gradient[order] for key, gradient in gradients.items()}, moved, 1e-10)


@pytest.mark.parametrize("name", [*RANKING, "rank_margin-ordinal"])
@EXAMPLES
@given(**BATCHES)
@example(seed=1, rows=0, scores=6)
@example(seed=1, rows=300, scores=1)
@example(seed=1, rows=300, scores=2)
@example(seed=1, rows=300, scores=10**6)
def test_sorted_term_is_the_term_over_all_pairs(name: str, seed: int, rows: int, scores: int):
    term = RANKING.get(name) or RankMargin(ties="ordinal")
    columns, _ = draw(seed, rows, scores)
    with sorting(always=False):
        value, gradients = value_and_gradients(term, columns)
    with sorting(always=True):
        other, found = value_and_gradients(term, columns)
    torch.testing.assert_close(other, value, rtol=1e-12, atol=1e-14)
    assert_same(found, gradients, 1e-10)


@pytest.mark.parametrize("name", BY_HALVES)
@EXAMPLES
@given(**BATCHES, decades=st.sampled_from([0.5, 3, 8]))
def test_every_vector_may_have_a_length_of_its_own(
    name: str, seed: int, rows: int, scores: int, decades: float
):
    columns, generator = draw(seed, rows, scores)
    scaled = dict(columns)
    for side in ("left", "right"):
        exponent = torch.rand(rows, 1, dtype=torch.float64, generator=generator) * 2 - 1
        scaled[side] = columns[side] * 10 ** (decades * exponent)  # (rows, dim)
    value, _ = value_and_gradients(RANKING[name], columns)
    other, _ = value_and_gradients(RANKING[name], scaled)
    torch.testing.assert_close(value, other, rtol=1e-11, atol=1e-13)


# Each term once in every form that has a code of its own.
TERMS: list[tuple[str, dict[str, Any]]] = [
    ("angle", {"delta": "sum"}),
    ("angle", {"delta": "phase"}),
    ("angle", {"delta": "modulus"}),
    ("arccon", {"negatives": "both"}),
    ("arccon", {"margin": 0, "negatives": "first"}),
    ("cosent", {}),
    ("gated_angular", {"gate": "both"}),
    ("gated_angular", {"gate": "label"}),
    ("in_batch_negatives", {"sides": "one"}),
    ("in_batch_negatives", {"sides": "two"}),
    ("infonce", {}),
    ("masked_triplet", {"margin": 2.5}),
    ("mse", {"source": "precomputed"}),
    ("mse", {"source": "teacher"}),
    ("mse_embeddings", {"dim": 4, "teacher_dims": (3, 2)}),
    ("rank_consistency", {}),
    ("rank_distillation", {"method": "listmle", "teacher_dims": (3, 2)}),
    ("rank_distillation", {"method": "listnet", "teacher_dims": (3, 2)}),
    ("rank_margin", {"interval": 1}),
    ("softmax_nli", {"dim": 4}),
]
NAMED = [f"{name}-{'-'.join(str(value) for value in options.values())}" for name, options in TERMS]
A, B = [0.6, 0.8, 0.1, -0.3], [0.5, 0.1, 0.2, 0.7]
ZERO = [0.0, 0.0, 0.0, 0.0]
# Pairs with a zero vector on either side and on both, equal, opposite, of the same direction, generic.
EDGES = ([ZERO, B, ZERO, A, A, A, A, B], [A, ZERO, ZERO, A, [-x for x in A], [100 * x for x in A], B, A])


def edge_columns(term: nn.Module, dtype: torch.dtype) -> Columns:
    """Everything that a term can read, of eight rows at the edges of what is defined."""
    asked = needs(term)
    views = (*asked.views, *asked.optional_views)
    columns = {
        name: torch.tensor(EDGES[place % 2]).roll(place // 2, dims=0).to(dtype)
        for place, name in enumerate(views)
    }
    teacher = torch.randn(8, 2, 3, generator=torch.Generator().manual_seed(3))
    teacher[0], teacher[:, 1, 2] = 0, 0  # a zero vector, and a narrow second teacher
    targets = {
        "score": torch.linspace(-1, 1, 8),
        "label": torch.arange(8) % 3,
        "left_identity": torch.arange(8),
        "right_identity": torch.tensor([8, 9, 10, 3, 4, 5, 11, 12]),
        "maskable": torch.arange(8) > 0,
    }
    for name in (*asked.targets, *asked.optional_targets):
        columns[name] = teacher if name.endswith(TEACHER) else targets[name]
    return columns


def test_every_term_is_tried_at_the_edges():
    assert {name for name, _ in TERMS} == set(family.names("loss"))


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("name", "options"), TERMS, ids=NAMED)
def test_value_and_gradient_are_finite_at_zero_equal_and_opposite_vectors(
    name: str, options: dict[str, Any], dtype: torch.dtype
):
    torch.manual_seed(0)
    term = family.find("loss", name)(**options)
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("name", "options"), TERMS, ids=NAMED)
def test_result_under_autocast_is_that_in_float32(name: str, options: dict[str, Any], dtype: torch.dtype):
    torch.manual_seed(0)
    term = family.find("loss", name)(**options)
    columns = edge_columns(term, dtype)
    wide = {key: one.float() if key in VIEWS else one for key, one in columns.items()}
    lower = torch.float16 if dtype == torch.float16 else torch.bfloat16
    with torch.autocast("cpu", dtype=lower):
        value = term(**columns)
    assert value.dtype == torch.float32
    assert torch.equal(value, term(**wide))
    assert not math.isnan(value.item())
