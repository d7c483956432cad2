import os
from collections import Counter

import pytest

from embedrun.dataset.sts import Sts
from embedrun.store import Store


def test_a_year_without_a_task_is_refused():
    with pytest.raises(ValueError, match="12, 13, 14, 15, 16; got 17"):
        Sts(year=17)  # type: ignore[arg-type]


@pytest.mark.realdata
@pytest.mark.parametrize(("year", "count"), [(12, 3108), (13, 1500), (14, 3750), (15, 3000), (16, 1186)])
def test_the_real_sets_have_their_published_sizes(year, count):
    assert len(Sts(year=year).read("test", Store.find(os.environ["EMBEDRUN_DATA"]))) == count


@pytest.mark.realdata
def test_the_real_sts12_has_its_five_subsets():
    rows = Sts(year=12).read("test", Store.find(os.environ["EMBEDRUN_DATA"]))
    assert Counter(rows.subset) == {
        "MSRpar": 750,
        "MSRvid": 750,
        "SMTeuroparl": 459,
        "OnWN": 750,
        "SMTnews": 399,
    }
