import pytest

from embedrun.dataset.store_pairs import require_published
from embedrun.errors import DataError

FILE = "senteval/mrpc/test.jsonl.gz"  # 578 and 1,147 rows of the labels 0 and 1


def test_a_file_with_the_published_numbers_passes(store):
    require_published(store, FILE, 1725, [0] * 578 + [1] * 1147)


def test_labels_are_counted_although_the_rows_are_right(store):
    with pytest.raises(DataError) as caught:
        require_published(store, FILE, 1725, [0] * 579 + [1] * 1146)
    assert caught.value.problems == [
        f"{store.path(FILE)}: 579 rows of label 0, the published data set has 578",
        f"{store.path(FILE)}: 1146 rows of label 1, the published data set has 1147",
    ]


def test_another_number_of_rows_is_refused_with_the_way_on(store):
    with pytest.raises(DataError) as caught:
        require_published(store, "mscoco/test_captions.jsonl.gz", 4999)
    first, second = caught.value.problems
    assert first.endswith("4999 rows, the published data set has 5000")
    assert "`embedrun data get mscoco --from DIR`" in second


@pytest.mark.parametrize("file", ["flickr8k/captions.jsonl.gz", "my/own.jsonl.gz"])
def test_a_file_of_which_nothing_is_published_passes(store, file):
    require_published(store, file, 3)
