import math

import pytest
import torch

from embedrun.loss.infonce import Infonce

E = math.e
AXES = torch.eye(2)
FIRST = torch.tensor([[5.0, 0.0], [5.0, 0.0]])  # in the direction of the first axis


def test_every_hard_negative_of_every_row_is_a_candidate():
    # The first anchor has four more candidates at cosine 1, the second four more at 0.
    loss = Infonce(temperature=1.0)(AXES, AXES, negative_1=FIRST, negative_2=FIRST)
    torch.testing.assert_close(loss, torch.tensor((math.log((5 * E + 1) / E) + math.log((E + 5) / E)) / 2))


def test_a_hard_negative_that_a_row_lacks_is_no_candidate():
    # The second row has one: four candidates at cosine 1 and one at 0, and one at 1 and four at 0.
    both = {"negative_1": FIRST, "negative_2": FIRST, "hard_negatives": torch.tensor([2, 1])}
    loss = Infonce(temperature=1.0)(AXES, AXES, **both)
    torch.testing.assert_close(loss, torch.tensor((math.log((4 * E + 1) / E) + math.log((E + 4) / E)) / 2))


def test_comparisons_count_candidates_nearer_than_the_positive():
    # Positives at 0.6 and 0.8; the first row's other candidate at 0.6, an equal one, the second's at 0.8.
    right = torch.tensor([[0.6, 0.8], [0.6, 0.8]])
    assert [share.item() for share in Infonce().comparisons(AXES, right)] == [1, 0]
    # Two more at 1 for the first row and at 0 for the second: two of six.
    active, violated = Infonce().comparisons(AXES, right, FIRST)
    assert active.item() == 1
    assert violated.item() == pytest.approx(2 / 6)
    # And two more at 0 for the first row and at 1 for the second: four of ten.
    second = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    _, violated = Infonce().comparisons(AXES, right, negative_1=FIRST, negative_2=second)
    assert violated.item() == pytest.approx(4 / 10)


def test_batch_of_one_row_is_idle_without_hard_negatives():
    assert Infonce().idle(1) == "a batch of one row has no negatives; raise training.batch_size"
    assert Infonce().idle(1, negative=True) is None
    assert Infonce().idle(1, negative_1=True) is None
    assert Infonce().idle(2) is None


def test_rows_labelled_contradiction_are_no_positives():
    reason = Infonce().idle(8, label=torch.tensor([0, 2]))
    assert reason is not None
    assert "choose dataset=nli_triplet" in reason
    assert Infonce().idle(8, label=torch.tensor([0, 0])) is None
