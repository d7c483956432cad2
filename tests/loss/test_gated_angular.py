import math
from typing import get_args

import pytest
import torch
from no_cost import assert_costs_and_moves_nothing
from torch import Tensor

from embedrun.loss.gated_angular import Gate, GatedAngular

GATES: tuple[Gate, ...] = get_args(Gate)
TURN = math.exp(math.pi / 2)  # e to a quarter turn
# Angles 0, a quarter turn and half a turn, for a contradiction, a neutral pair and an entailment.
LEFT = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
RIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])
LABEL = torch.tensor([2, 1, 0])


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(20)
    left, right = torch.randn(2, 6, 5, dtype=torch.float64, generator=generator)
    label = torch.tensor([0, 1, 2, 0, 2, 1])
    return left, right, label, torch.tensor([0.9, 0.5, 0.1, 0.4, 0.6, 0.5])


@pytest.mark.parametrize("gate", GATES)
def test_every_two_pairs_are_compared_where_label_and_score_agree(gate: Gate):
    loss = GatedAngular(scale=1.0, gate=gate)(LEFT, RIGHT, LABEL, torch.tensor([0.0, 0.5, 1.0]))
    torch.testing.assert_close(loss, torch.tensor(math.log(1 + 2 * TURN + TURN**2)))


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        # The score finds the second pair more similar than the third.
        ("both", 1 + TURN + TURN**2),
        ("label", 1 + 2 * TURN + TURN**2),
        ("score", 1 + TURN + TURN**2 + 1 / TURN),
    ],
)
def test_gate_decides_where_label_and_score_disagree(gate: Gate, expected: float):
    loss = GatedAngular(scale=1.0, gate=gate)(LEFT, RIGHT, LABEL, torch.tensor([0.0, 1.0, 0.5]))
    torch.testing.assert_close(loss, torch.tensor(math.log(expected)))


def test_scale_multiplies_the_angles():
    loss = GatedAngular(scale=3.0, gate="label")(LEFT[:2], RIGHT[:2], LABEL[:2])
    torch.testing.assert_close(loss, torch.tensor(math.log(1 + TURN**3)))


def test_gate_label_does_not_read_the_score_nor_gate_score_the_label():
    left, right, label, score = batch()
    by_label, by_score = GatedAngular(gate="label"), GatedAngular(gate="score")
    assert torch.equal(by_label(left, right, label, score), by_label(left, right, label))
    assert torch.equal(by_label(left, right, label, score.flip(0)), by_label(left, right, label))
    assert torch.equal(by_score(left, right, label, score), by_score(left, right, score=score))
    assert torch.equal(by_score(left, right, label.flip(0), score), by_score(left, right, score=score))


@pytest.mark.parametrize(
    ("label", "score"),
    [
        ([1, 1, 1], [0.0, 0.5, 1.0]),  # one label
        ([2, 1, 0], [0.5, 0.5, 0.5]),  # one score
        ([2, 1, 0], [1.0, 0.5, 0.0]),  # they contradict each other everywhere
    ],
)
def test_without_agreement_it_costs_exactly_nothing(label: list[int], score: list[float]):
    left, right, *_ = batch()
    left = left[:3].requires_grad_()
    loss = GatedAngular()(left, right[:3], torch.tensor(label), torch.tensor(score))
    assert_costs_and_moves_nothing(loss, left)


@pytest.mark.parametrize(
    ("gate", "active", "violated"),
    [
        ("both", 2 / 3, 1),  # (1, 2) and (1, 3), both the wrong way round
        ("label", 1, 1),
        ("score", 1, 2 / 3),  # and (3, 2), which has the larger angle above, as it should
    ],
)
def test_comparisons_count_pairs_that_pass_the_gate(gate: Gate, active: float, violated: float):
    shares = GatedAngular(gate=gate).comparisons(LEFT, RIGHT, LABEL, torch.tensor([0.0, 1.0, 0.5]))
    assert [share.item() for share in shares] == pytest.approx([active, violated])


def test_one_label_is_idle_unless_only_scores_are_compared():
    label, score = torch.tensor([1, 1]), torch.tensor([0.0, 1.0])
    reason = (
        "all training rows have the label 1, and the gate compares rows of different labels; "
        "keep more labels (dataset.labels) or use gate=score"
    )
    assert GatedAngular(gate="both").idle(8, label, score) == reason
    assert GatedAngular(gate="label").idle(8, label, score) == reason
    assert GatedAngular(gate="score").idle(8, label, score) is None


def test_one_score_is_idle_unless_only_labels_are_compared():
    label, score = torch.tensor([0, 1]), torch.tensor([0.5, 0.5])
    reason = "all scores of the training rows are equal"
    assert GatedAngular(gate="both").idle(8, label, score) == reason
    assert GatedAngular(gate="score").idle(8, label, score) == reason
    assert GatedAngular(gate="label").idle(8, label, score) is None


def test_rows_whose_labels_and_scores_never_agree_are_idle_with_both_conditions():
    label = torch.tensor([0, 0, 1, 2])
    reason = "no two training rows have labels and scores that agree; are two of the labels swapped?"
    swapped = torch.tensor([0.1, 0.2, 0.2, 0.9])
    assert GatedAngular().idle(8, label, swapped) == reason
    assert GatedAngular(gate="label").idle(8, label, swapped) is None
    assert GatedAngular().idle(8, label, torch.tensor([0.1, 0.3, 0.2, 0.9])) is None  # rows 2 and 3
