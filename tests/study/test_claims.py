"""Claims over rows and seeds: the interval, the correction, the verdict."""

import numpy as np
import pytest

from embedrun.study.claims import Claim, Scored, decide

EVEN = np.linspace(-1, 1, 2001)  # deviations of the resamples, symmetric around 0


def runs(*differences: float, spread: float = 0.1) -> dict[str, dict[int, Scored]]:
    """Rows A and B, whose scores differ by so much with seeds 1, 2, ...; B is the same in all resamples."""
    a = {seed: Scored(70 + one, 70 + one + spread * EVEN) for seed, one in enumerate(differences, 1)}
    b = {seed: Scored(70.0, np.full(len(EVEN), 70.0)) for seed in a}
    return {"A": a, "B": b}


CLAIM = Claim("A over B", "A", "B")


def only(found):
    (decision,) = found
    return decision


def test_the_difference_is_the_mean_over_paired_seeds_and_the_interval_that_of_the_rows():
    # One seed: nothing is drawn among seeds, so that the draws are 0.5 + 0.1 x, x even from -1 to 1; the 2.5
    # and 97.5 percentiles of x are -0.95 and 0.95.
    found = only(decide([CLAIM], runs(0.5)))
    assert found.each == {1: pytest.approx(0.5)}
    assert found.difference == pytest.approx(0.5)
    assert (found.low, found.high) == (pytest.approx(0.405), pytest.approx(0.595))
    assert found.p == 1 / 2001  # no draw is on the other side
    assert found.verdict == "yes"
    assert found.smallest == 0.3  # half of the interval is 0.095


def test_a_p_value_is_twice_the_share_on_the_other_side():
    # 0.05 + 0.1 x <= 0 for x <= -0.5: the first 501 of 2,001.
    found = only(decide([CLAIM], runs(0.05)))
    assert found.p == pytest.approx(2 * 501 / 2001)
    assert found.verdict == "undecided"


def test_seeds_are_drawn_too():
    # Two seeds, 0 and 1 apart, and no spread over rows: both drawn alike in a quarter of the draws each.
    found = only(decide([CLAIM], runs(0.0, 1.0, spread=0.0)))
    assert found.difference == pytest.approx(0.5)
    assert (found.low, found.high) == (0.0, 1.0)
    assert found.p == pytest.approx(0.5, abs=0.05)
    assert found.smallest == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ((0.6, 0.5, 0.7), "yes"),
        ((-0.6, -0.5, -0.7), "no"),
        ((0.29, 0.29, 0.29), "undecided"),  # too small to matter
        ((2.0, 2.0, -0.01), "undecided"),  # the seeds disagree
    ],
)
def test_a_verdict_asks_for_the_interval_the_sign_of_all_seeds_and_the_size(differences, verdict: str):
    assert only(decide([CLAIM], runs(*differences, spread=0.02))).verdict == verdict


def test_more_claims_widen_the_interval_of_each_and_the_least_certain_is_held_to_the_least():
    both = runs(0.5) | {"C": runs(0.05)["A"]}
    first, second = decide([Claim("C over B", "C", "B"), CLAIM], both)
    # Of two, A over B has the smaller p-value, and 0.05 / 2: 0.5 + 0.1 x at x = -0.975 and 0.975.
    assert (second.low, second.high) == (pytest.approx(0.4025), pytest.approx(0.5975))
    assert (first.low, first.high) == (pytest.approx(-0.045), pytest.approx(0.145))  # 0.05 + 0.1 x at 0.95
    assert (first.claim.name, first.verdict, second.verdict) == ("C over B", "undecided", "yes")


def test_no_claim_is_decided_behind_one_that_is_not():
    # The first by its p-value has a tail that its interval at 0.05 / 2 does not leave out; the second, with
    # a larger p-value, would at 0.05, but is held to 0.05 / 2 too: 40 draws of 2,001 are more than 1.25 %.
    heavy = np.sort(np.concatenate([np.full(26, -1.0), np.full(1975, 1.0)]))  # p = 52 / 2001
    light = np.sort(np.concatenate([np.full(40, -1.0), np.full(1961, 1.0)]))  # p = 80 / 2001
    zero = np.zeros(2001)
    many = {
        "A": {1: Scored(1.0, heavy)},
        "B": {1: Scored(1.0, light)},
        "0": {1: Scored(0.0, zero)},
    }
    claims = [Claim("A over 0", "A", "0"), Claim("B over 0", "B", "0")]
    assert [one.verdict for one in decide(claims, many)] == ["undecided", "undecided"]
    assert [(one.low, one.high) for one in decide(claims, many)] == [(-1.0, 1.0), (-1.0, 1.0)]
    assert only(decide(claims[1:], many)).verdict == "yes"


def test_seeds_that_one_row_lacks_are_left_out():
    several = runs(0.5, 0.7)
    del several["B"][2]
    assert only(decide([CLAIM], several)).each == {1: pytest.approx(0.5)}


def test_rows_without_a_common_seed_cannot_be_compared():
    several = runs(0.5)
    several["B"] = {2: several["B"][1]}
    with pytest.raises(ValueError, match=r"claim 'A over B': 'A' and 'B' share no seed"):
        decide([CLAIM], several)


def test_the_same_runs_give_the_same_decisions():
    several = runs(0.4, 0.5, 0.6)
    assert decide([CLAIM], several) == decide([CLAIM], several)
