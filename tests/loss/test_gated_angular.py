import math

import pytest
import torch

from embedrun.loss.gated_angular import Gate, GatedAngular

TURN = math.exp(math.pi / 2)  # e to a quarter turn
# Angles 0, a quarter turn and half a turn, for a contradiction, a neutral pair and an entailment.
LEFT = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
RIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])
LABEL = torch.tensor([2, 1, 0])


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


def test_rows_whose_labels_and_scores_never_agree_are_idle_with_both_conditions():
    label = torch.tensor([0, 0, 1, 2])
    reason = "no two training rows have labels and scores that agree; are two of the labels swapped?"
    swapped = torch.tensor([0.1, 0.2, 0.2, 0.9])
    assert GatedAngular().idle(8, label, swapped) == reason
    assert GatedAngular(gate="label").idle(8, label, swapped) is None
    assert GatedAngular().idle(8, label, torch.tensor([0.1, 0.3, 0.2, 0.9])) is None  # rows 2 and 3
