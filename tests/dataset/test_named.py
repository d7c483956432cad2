"""A data set by one word, and what cannot be read."""

import pytest

from embedrun.dataset.named import data_set, unreadable
from embedrun.dataset.published import Sts, Stsb
from embedrun.dataset.toy import Toy
from embedrun.store import Store

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stbs", r"no data set 'stbs'; did you mean 'stsb'\? \(there are: .*sts12, sts13"),
        ("pairs", r"'pairs' needs options \(path\), .*'embedrun check dataset=pairs dataset.path=...'"),
    ],
)
def test_a_word_that_is_not_enough_is_refused_with_the_way_on(word, reason):
    with pytest.raises(ValueError, match=reason):
        data_set(word)


def test_all_missing_files_of_the_store_are_one_problem_and_each_is_named_once(tmp_path):
    splits = [(Stsb(), "dev"), (Sts(year=12), "test"), (Stsb(), "dev"), (Toy(), "train")]
    (problem,) = unreadable(splits, Store(tmp_path))
    assert problem.startswith("stsb/dev.tsv.gz, sts/sts12.tsv.gz: not in the data folder")
