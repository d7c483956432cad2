"""Which part of a mixture each batch is of, and which of its rows."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from embedrun.config import TrainingConfig
from embedrun.dataset.mix import Mix, Part
from embedrun.dataset.toy import Toy
from embedrun.training.mixture import Mixture, divided, mixed_batches
from embedrun.training.order import Order

SIZES = {"nli": 40, "stsb": 24, "faq": 8}  # rows, in batches of 4: 10, 6 and 2 of them


def mix(shares: dict[str, float] | None = None, **options: Any) -> Mix:
    shares = shares or {}
    parts = {name: Part(Toy(), shares.get(name)) for name in SIZES}
    given = {name: {"share": part.share} for name, part in parts.items()}
    return Mix(parts=given, **options).filled(parts)


def mixture(shares: dict[str, float] | None = None, **options: Any) -> Mixture:
    orders = {name: Order(rows, 4, 1, seed=3) for name, rows in SIZES.items()}
    return Mixture(mix(shares, **options), orders, seed=3, accumulate=1)


def parts(made: Mixture, epoch: int = 0) -> list[str]:
    count = sum(made.counts.values())
    return [made.draw(number).part for number in range(epoch * count, (epoch + 1) * count)]


@pytest.mark.parametrize(
    ("shares", "options", "counts"),
    [
        (None, {}, (10, 6, 2)),
        (None, {"mixing": "round_robin"}, (10, 10, 10)),
        (None, {"mixing": "round_robin", "ends": "shortest"}, (2, 2, 2)),
        # nli lasts 10 / 0.5 = 20 batches of the mixture, stsb 6 / 0.25 = 24, faq 2 / 0.25 = 8
        ((0.5, 0.25, 0.25), {}, (12, 6, 6)),
        ((2, 1, 1), {"ends": "shortest"}, (4, 2, 2)),
        # roots of 40, 24, 8: 6.325, 4.899, 2.828 of 14.052; nli lasts 10 / 0.45 = 22.2 batches
        (None, {"mixing": "temperature"}, (10, 8, 4)),
    ],
)
def test_an_epoch_has_so_many_batches_of_each_part(shares, options, counts):
    made = mixture(shares and dict(zip(SIZES, shares, strict=True)), **options)
    assert tuple(made.counts.values()) == counts
    assert Counter(parts(made)) == made.counts == Counter(parts(made, epoch=1))
    if made.counts["nli"] != made.counts["faq"]:
        assert parts(made) != parts(made, epoch=1)


def test_a_part_that_ends_early_starts_its_next_epoch_and_loses_no_row():
    made = mixture(mixing="round_robin")
    draws = [made.draw(number) for number in range(30)]
    of_faq = [draw for draw in draws if draw.part == "faq"]
    assert [draw.epoch for draw in of_faq] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    rows = [
        np.concatenate([first.rows, second.rows])
        for first, second in zip(of_faq[::2], of_faq[1::2], strict=True)
    ]
    assert all(sorted(both) == list(range(8)) for both in rows)
    again = mixture(mixing="round_robin")
    assert [again.draw(17).rows.tolist(), again.draw(3).part] == [draws[17].rows.tolist(), draws[3].part]


def test_the_sequence_is_that_of_sentence_transformers():
    import torch
    from sentence_transformers.base.sampler import ProportionalBatchSampler, RoundRobinBatchSampler
    from torch.utils.data import BatchSampler, ConcatDataset, SequentialSampler, TensorDataset

    sets = [TensorDataset(torch.arange(rows)) for rows in SIZES.values()]
    first_rows = np.cumsum([0, *SIZES.values()])
    samplers = [BatchSampler(SequentialSampler(one), 4, drop_last=True) for one in sets]

    def theirs(kind: type) -> list[str]:
        sampler = kind(ConcatDataset(sets), samplers, generator=torch.Generator(), seed=1)
        starts = [batch[0] for batch in sampler]
        return [list(SIZES)[int(np.searchsorted(first_rows, start, side="right")) - 1] for start in starts]

    assert parts(mixture(mixing="round_robin", ends="shortest")) == theirs(RoundRobinBatchSampler)
    assert Counter(parts(mixture(mixing="proportional"))) == Counter(theirs(ProportionalBatchSampler))


def test_mixed_batches_have_rows_of_all_parts_in_their_proportion():
    order = mixed_batches(mix(), SIZES, TrainingConfig(batch_size=9), 3)
    first = order.draw(0).rows
    assert [
        int(((first >= low) & (first < low + rows)).sum()) for low, rows in ((0, 40), (40, 24), (64, 8))
    ] == [5, 3, 1]
    assert order.steps(1, None) == 8
    every = np.concatenate([order.draw(number).rows for number in range(8)])
    assert sorted(every) == list(range(72))


def test_whole_numbers_by_the_largest_remainders():
    assert divided(10, {"a": 0.55, "b": 0.27, "c": 0.18}) == {"a": 5, "b": 3, "c": 2}
    assert divided(3, {"a": 100, "b": 1}) == {"a": 2, "b": 1}
