import pytest

from embedrun.dataset.senteval import Senteval
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


@pytest.mark.parametrize("label", [2, -1, True, "1", 1.0, None])
def test_what_is_no_class_of_the_task_is_refused_with_its_line(store, write, label):
    path = write("senteval/mr/train.jsonl.gz", [{"text": "a", "label": 0}, {"text": "b", "label": label}])
    with pytest.raises(DataError) as caught:
        Senteval(task="mr").read("train", store)
    shown = "null" if label is None else repr(label)
    reason = f"expected a whole number from 0 to 1, got {shown}"
    assert caught.value.problems == [f"{path}, row 2: label: {reason}"]
