import numpy as np
import torch

from embedrun.batch import Tokens, TokenTable

# Three texts: [10, 11], [20], [30, 31, 32].
TABLE = TokenTable(np.array([10, 11, 20, 30, 31, 32], dtype=np.int32), np.array([0, 2, 3, 6]))


def test_take_gives_texts_in_the_order_asked_for_repeats_included():
    tokens = TABLE.take(np.array([2, 0, 2]))
    assert tokens.ids.tolist() == [30, 31, 32, 10, 11, 30, 31, 32]
    assert tokens.lengths.tolist() == [3, 2, 3]
    assert tokens.ids.dtype == tokens.lengths.dtype == torch.int64
    assert len(tokens) == 3


def test_join_puts_the_texts_of_all_parts_in_order():
    joined = Tokens.join([TABLE.take(np.array([1])), TABLE.take(np.array([0, 1]))])
    assert joined.ids.tolist() == [20, 10, 11, 20]
    assert joined.lengths.tolist() == [1, 2, 1]
