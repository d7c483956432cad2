import math
from typing import Any

import pytest
import torch

from embedrun.loss.in_batch_negatives import InBatchNegatives
from embedrun.loss.terms import Positives

E = math.e
# Directions at right angles: a cosine is 1 between equal letters, 0 between others.
A, B, C, D = torch.eye(4).tolist()


def cost(
    left: list[list[float]],
    right: list[list[float]],
    score: list[float],
    identity: tuple[list[int], list[int]] | None = None,
    **options: Any,
) -> float:
    options = {"temperature": 1.0, "identical_texts": "off"} | options
    identities = [torch.tensor(side) for side in identity or ()]
    term = InBatchNegatives(**options)
    return term(torch.tensor(left), torch.tensor(right), torch.tensor(score), *identities).item()


def test_reductions_share_one_sum():
    # One positive pair of two: two of the four rows have a target.
    total = 2 * math.log((E + 2) / E)
    assert cost([A, B], [A, B], [1, 0], reduction="sum") == pytest.approx(total)
    assert cost([A, B], [A, B], [1, 0], reduction="mean_pos_rows") == pytest.approx(total / 2)
    assert cost([A, B], [A, B], [1, 0], reduction="mean_all") == pytest.approx(total / 4)


def test_a_label_makes_a_pair_positive_whatever_its_score():
    # Entailment, contradiction, neutral, scored the other way round: the first premise alone is an anchor.
    # Of the second texts A, A and C its own is at cosine 1, the contradiction's at 1, the neutral one's at 0.
    left, right, score = torch.tensor([A, B, A]), torch.tensor([A, A, C]), torch.tensor([0.1, 0.9, 0.5])
    options: dict[str, Any] = {"sides": "one", "reduction": "mean_pos_rows", "identical_texts": "off"}
    term = InBatchNegatives(temperature=1.0, positive_by="label", **options)
    label = torch.tensor([0, 2, 1])
    for given in (None, score):
        assert term(left, right, given, label=label).item() == pytest.approx(math.log((2 * E + 1) / E))
        assert term.positives(given, label) == Positives(1, "label is entailment")
        active, violated = term.comparisons(left, right, given, label=label)
        assert (active.item(), violated.item()) == (pytest.approx(1 / 3), 0)


def test_labels_without_entailment_are_idle():
    term = InBatchNegatives(positive_by="label")
    assert term.idle(8, score=torch.ones(2), label=torch.tensor([1, 2])) == (
        "no training row is a positive: none is labelled entailment (0)"
    )
    assert term.idle(8, label=torch.tensor([2, 0])) is None


# Two pairs with one first text, A-B and A-C, both positive; rows A, A', B, C.
TWICE = {"left": [A, A], "right": [B, C], "score": [1, 1], "identity": ([0, 0], [1, 2])}
# Every row of A has candidates A' at cosine 1 and B, C at 0.
ROW_A = math.log((E + 2) / E)  # cost of A' as a target


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("off", 2 * ROW_A),
        ("add", 4 * ROW_A),  # the partner is a copy as well: counted twice
        ("union", 2 * ROW_A),
        ("mask", 2 * ROW_A),  # the partner is never masked
    ],
)
def test_pair_of_two_equal_texts(kind: str, expected: float):
    identity = ([0, 1], [0, 2])
    pair = cost([A, B], [A, C], [1, 0], identity, identical_texts=kind, reduction="sum")
    assert pair == pytest.approx(expected)


# One-sided: rows A, B, C; candidates B, B', A. Every pair is positive; A is also the third second text.
ONE = {"left": [A, B, C], "right": [B, B, A], "score": [1, 1, 1], "identity": ([0, 1, 2], [1, 1, 0])}
# Costs of a target at cosine 1 and at 0: row A sees (0, 0, 1), row B (1, 1, 0), row C (0, 0, 0).
ONE_A = [math.log((E + 2) / E), math.log(E + 2)]
ONE_B = math.log((2 * E + 1) / E)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("off", ONE_A[1] + ONE_B + math.log(3)),
        # Row A gains the candidate A; row B gains B and, again, its partner B'.
        ("add", sum(ONE_A) + 3 * ONE_B + math.log(3)),
        ("union", sum(ONE_A) + 2 * ONE_B + math.log(3)),
        # Row A loses A and B', and keeps its partner alone; row B loses B; row C loses nothing.
        ("mask", 0 + math.log((E + 1) / E) + math.log(3)),
    ],
)
def test_one_sided_copies_are_looked_for_among_the_candidates(kind: str, expected: float):
    assert cost(**ONE, identical_texts=kind, sides="one", reduction="sum") == pytest.approx(expected)


def shares(
    left: list[list[float]],
    right: list[list[float]],
    score: list[float],
    identity: tuple[list[int], list[int]] | None = None,
    **options: Any,
) -> list[float]:
    options = {"identical_texts": "off"} | options
    identities = [torch.tensor(side) for side in identity or ()]
    term = InBatchNegatives(**options)
    found = term.comparisons(torch.tensor(left), torch.tensor(right), torch.tensor(score), *identities)
    return [share.item() for share in found]


def test_comparisons_count_rows_with_a_target_and_negatives_nearer_than_it():
    # A-B is positive: each of the two has the negatives A' and C, and A' is nearer to A than B is. A'-C is
    # negative: no targets.
    assert shares([A, A], [B, C], [1, 0]) == [2 / 4, 1 / 4]
    # Of the second texts, A's only negative is C, as far as B is: a tie contradicts nothing.
    assert shares([A, A], [B, C], [1, 0], sides="one") == [1 / 2, 0]
    # B's partner is C, and the other second text is B.
    assert shares([A, B], [B, C], [1, 1], sides="one") == [1, 1 / 2]


def test_copies_are_counted_as_the_option_has_them():
    # A-B and A'-C are positive. Off: each row has two negatives, and the A are nearer to each other.
    assert shares(**TWICE, identical_texts="off") == [1, 2 / 8]
    # Mask: A has C left, A' has B, B has C and C has B.
    assert shares(**TWICE, identical_texts="mask") == [1, 0]
    # Add: A' is a target of A, whose only negative is C, as far as the farther target.
    assert shares(**TWICE, identical_texts="add") == [1, 0]
    assert shares(**TWICE, identical_texts="union") == [1, 0]


def test_scores_below_positive_from_are_idle():
    score = torch.tensor([0.0, 0.4])
    assert InBatchNegatives().idle(8, score) == (
        "no training row is a positive: scores reach 0.4, and positive_from=0.5; lower it"
    )
    assert InBatchNegatives(positive_from=0.25).idle(8, score) is None
    assert InBatchNegatives().idle(8, torch.tensor([0.0, 0.5])) is None
