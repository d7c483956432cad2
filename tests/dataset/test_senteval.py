import pytest

from embedrun.dataset.published import Senteval
from embedrun.errors import DataError


def texts(counts: dict[int, int]) -> list[dict]:
    return [{"text": f"text {label} {i}", "label": label} for label, n in counts.items() for i in range(n)]


def test_a_subj_of_5020_rows_is_refused_with_both_numbers(store, write):
    path = write("senteval/subj/train.jsonl.gz", texts({1: 5000, 0: 20}))
    with pytest.raises(DataError) as caught:
        Senteval(task="subj").read("train", store)
    assert caught.value.problems[:2] == [
        f"{path}: 5020 rows, the published data set has 10000",
        f"{path}: 20 rows of label 0, the published data set has 5000",
    ]
    assert "other scores under the same name" in caught.value.problems[2]
    assert "`embedrun data get subj --from DIR`" in caught.value.problems[2]
