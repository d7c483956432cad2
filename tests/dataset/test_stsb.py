import os

import pytest

from embedrun.dataset.stsb import Stsb
from embedrun.store import Store


@pytest.mark.realdata
@pytest.mark.parametrize(("split", "count"), [("train", 5749), ("dev", 1500), ("test", 1379)])
def test_the_real_splits_have_their_published_sizes(split, count):
    rows = Stsb().read(split, Store.find(os.environ["EMBEDRUN_DATA"]))
    assert len(rows) == count
    assert (rows.targets["score"].min(), rows.targets["score"].max()) == (0, 5)
