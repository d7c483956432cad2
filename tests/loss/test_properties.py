"""What holds for the terms that order pairs, whatever the batch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import get_args

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from embedrun.loss import ordered_pairs
from embedrun.loss.angle import Angle, Delta, Direction
from embedrun.loss.cosent import Cosent
from embedrun.loss.gated_angular import Gate, GatedAngular
from embedrun.loss.rank_margin import RankMargin
from embedrun.loss.terms import needs

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
