import os
from collections import Counter

import pytest

from embedrun.dataset.published import Sts
from embedrun.store import Store


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
