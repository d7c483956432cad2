import numpy as np
import pytest
import torch

from embedrun.backbone.ran.layers import cut


def columns(lengths: list[int], tokens: int | None = None):
    return cut(np.array(lengths), tokens=tokens or max(lengths), window=8, min_window=3)


def parts_of(lengths: list[int], text: int) -> list[list[int]]:
    """The columns that each window of one text reads."""
    found = []
    for window in columns(lengths).each:
        if window.alive is not None and not window.alive[text]:
            continue
        every = torch.arange(window.start, window.stop)
        own = every if window.keys is None else every[window.keys[text, 0, 0, 1:]]
        found.append(own.tolist())
    return found


@pytest.mark.parametrize(
    ("length", "sizes"),
    [(1, [1]), (8, [8]), (10, [10]), (11, [8, 3]), (16, [8, 8]), (18, [8, 10]), (19, [8, 8, 3])],
)
def test_a_short_rest_joins_the_window_before_it_and_a_longer_one_stands_alone(length, sizes):
    for lengths in ([length], [length, 30, 10, 2]):  # alone, and beside others
        parts = parts_of(lengths, 0)
        assert [len(part) for part in parts] == sizes
        assert [column for part in parts for column in part] == list(range(length))


def test_texts_of_whole_windows_need_no_mask():
    windows = columns([16, 16])
    assert [(window.start, window.stop) for window in windows.each] == [(0, 8), (8, 16)]
    assert all(window.keys is window.alive is None for window in windows.each)
    assert windows.place is windows.memory is None


def test_the_cell_is_read_in_every_window_even_behind_the_end_of_a_text():
    for window in columns([30, 4]).each[1:]:
        assert window.keys is not None
        assert window.keys[1, 0, 0].tolist() == [True] + [False] * (window.stop - window.start)


def test_memory_holds_the_windows_that_a_text_has():
    memory = columns([19, 10, 11]).memory
    assert memory is not None
    assert memory.tolist() == [[True, True, True], [True, False, False], [True, True, False]]


def test_a_token_is_found_in_the_window_that_read_it():
    windows = columns([18, 10, 19])  # windows of 10, 10 and 3 columns side by side
    assert [(window.start, window.stop) for window in windows.each] == [(0, 10), (8, 18), (16, 19)]
    assert windows.place is not None
    assert windows.place[0, :18].tolist() == [*range(8), *range(10, 20)]
    assert windows.place[1, :10].tolist() == [*range(10)]
    assert windows.place[2].tolist() == [*range(8), *range(10, 18), 20, 21, 22]


def test_columns_that_no_text_reaches_have_a_place_too():
    windows = columns([8, 5], tokens=12)
    assert windows.place is not None
    assert windows.place.shape == (2, 12)
    assert windows.place.max() < 8
