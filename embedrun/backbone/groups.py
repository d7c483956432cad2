"""How texts of different lengths share forward passes."""

import numpy as np


def groups(lengths: np.ndarray, *, overhead: int, budget: int | None = None) -> list[np.ndarray]:
    r"""Cut texts into groups that are each padded to their longest, at the least total cost.

    Sorted by length, groups are runs of neighbours, and the cost of a cut is

    .. math:: \sum_{g} \bigl(|g| \max_{i \in g} n_i + c \bigr)

    with :math:`n_i` the length of text *i* and *c* the overhead. The best cut at changes of length is
    found exactly, by dynamic programming over the distinct lengths.

    Args:
        lengths: tokens of each text, ``(texts,)``, >= 1.
        overhead: cost of one more forward pass, in tokens: small where padding is dear (a CPU), large
            where starting a pass is (a CUDA device).
        budget: padded tokens of a group, at most, unless one text alone is longer; None: no limit.

    Returns:
        Positions of the texts of each group, longest group first, so that a lack of memory shows at once.
    """
    order = np.argsort(lengths, kind="stable")  # (texts,)
    distinct, counts = np.unique(lengths, return_counts=True)  # (kinds,) each
    before = np.concatenate([[0], np.cumsum(counts)])  # (kinds + 1,) texts shorter than kind i
    least = np.zeros(len(before))  # (kinds + 1,) cost of the first i kinds
    start = np.zeros(len(before), dtype=np.int64)  # (kinds + 1,) where the last run of that cost begins
    for end in range(1, len(before)):
        width = int(distinct[end - 1])
        texts = before[end] - before[:end]  # (end,) by where the run begins
        passes = np.ceil(texts / _texts_in_pass(width, budget))
        cost = least[:end] + width * texts + overhead * passes
        start[end] = np.argmin(cost)
        least[end] = cost[start[end]]
    found: list[np.ndarray] = []
    end = len(distinct)
    while end > 0:
        begin = int(start[end])
        run = order[before[begin] : before[end]][::-1]  # longest first
        size = _texts_in_pass(int(distinct[end - 1]), budget)
        found += [run[i : i + size] for i in range(0, len(run), size)]
        end = begin
    return found


def _texts_in_pass(width: int, budget: int | None) -> int:
    # Without a limit any number larger than a batch serves; it must stay finite for the division.
    return 2**31 if budget is None else max(1, budget // width)
