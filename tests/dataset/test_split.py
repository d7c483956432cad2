"""One file divided by a seed: groups that share texts, shares, refusals."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from embedrun.dataset.split import divide, held_out
from embedrun.errors import DataError

SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


def grouped(*sizes: int) -> np.ndarray:
    """Pairs in groups of these sizes, each group around one first text, ``(rows, 2)``."""
    hub = np.repeat(np.arange(len(sizes)), sizes)
    return np.stack([hub, len(sizes) + np.arange(sum(sizes))], axis=1)


def test_rows_that_share_a_text_through_others_stay_together():
    # 0-1, 1-2, 2-3 are one group of three through texts 1 and 2; the second view counts as the first does.
    chain = np.array([[0, 1], [2, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]])
    shares = {"train": 4 / 7, "dev": 3 / 7}
    for seed in range(10):
        splits = divide(chain, shares, seed)
        assert np.isin([0, 1, 2], splits["train"]).sum() in (0, 3)
        assert [len(rows) for rows in splits.values()] == [4, 3]


def test_the_splits_of_a_seed_stay_what_they_are():
    # Written down once: a run that goes on elsewhere must have the same rows.
    found = divide(grouped(3, 2, *[1] * 15), SHARES, 42)
    assert [found["dev"].tolist(), found["test"].tolist()] == [[5, 19], [6, 10]]
    around = np.roll(grouped(9, 3, *[1] * 388), -4, axis=0)  # the first group is at both ends
    assert divide(around, {"train": 0.98, "dev": 0.02}, 42)["dev"].tolist() == [
        14,
        35,
        46,
        117,
        162,
        180,
        217,
        362,
    ]


@given(
    index=st.integers(1, 3).flatmap(
        lambda views: st.lists(
            st.lists(st.integers(0, 1000), min_size=views, max_size=views), min_size=50, max_size=120
        )
    ),
    seed=st.integers(0, 2**32),
    by=st.sampled_from(["group", "row"]),
)
@settings(max_examples=25, deadline=None)
def test_every_row_is_in_one_split_and_no_text_in_two(index, seed, by):
    index = np.array(index)
    try:
        found = divide(index, SHARES, seed, by=by)
    except DataError:
        assume(by == "row")
        raise
    assert sorted(np.concatenate(list(found.values())).tolist()) == list(range(len(index)))
    again = divide(index.copy(order="F"), SHARES, seed, by=by)
    assert all(np.array_equal(found[name], again[name]) for name in found)
    if by == "group":
        texts = [set(index[rows].ravel().tolist()) for rows in found.values()]
        assert sum(map(len, texts)) == len(set().union(*texts))


def test_what_a_seed_holds_out_stays_what_it_is():
    assert held_out(grouped(3, 2, *[1] * 15), 4, 42).tolist() == [3, 4, 13, 15]
