import numpy as np
import torch
from torch import nn

from embedrun.training.feed import Teachers


class Lengths(nn.Module):
    """An encoder whose vector is the length of the text in letters, plus a weight, `dim` times."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.zeros(1))
        self.calls: list[list[str]] = []

    def encode(self, texts: list[str], progress=None) -> np.ndarray:
        self.calls.append(texts)
        if progress is not None:
            progress(len(texts), len(texts))
        return np.array([[len(text)] * self.dim for text in texts], dtype=np.float32)


def test_vectors_stand_side_by_side_with_zeros_behind_the_narrow_ones():
    teachers = Teachers([Lengths(1), Lengths(2)], ["a", "bb", "ccc"], in_memory=False)  # type: ignore[list-item]
    assert teachers.dims == (1, 2)
    assert teachers.vectors(torch.tensor([2, 0])).tolist() == [[[3, 0], [3, 3]], [[1, 0], [1, 1]]]


def test_in_memory_every_text_is_encoded_once_and_before_it_is_asked_for():
    one = Lengths(2)
    teachers = Teachers([one], ["a", "bb"], in_memory=True)  # type: ignore[list-item]
    assert one.calls == [["a", "bb"]]
    assert teachers.vectors(torch.tensor([1, 1, 0])).tolist() == [[[2, 2]], [[2, 2]], [[1, 1]]]
    assert one.calls == [["a", "bb"]]


def test_a_batch_at_a_time_only_its_own_texts_are_encoded():
    one = Lengths(2)
    teachers = Teachers([one], ["a", "bb", "ccc"], in_memory=False)  # type: ignore[list-item]
    assert one.calls == []
    teachers.vectors(torch.tensor([1]))
    assert one.calls == [["bb"]]


def test_teachers_are_frozen_and_have_no_dropout():
    one = Lengths(1).train()
    Teachers([one], [], in_memory=False)  # type: ignore[list-item]
    assert not one.training
    assert not one.weight.requires_grad


def test_no_teachers_have_no_dimensions_and_nothing_to_keep():
    assert Teachers([], ["a"], in_memory=True).dims == ()
