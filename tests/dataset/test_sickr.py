import os

import numpy as np
import pytest

from embedrun.dataset.sickr import Sickr
from embedrun.store import Store


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("split", "labels"), [("train", [1299, 2536, 665]), ("dev", [144, 282, 74]), ("test", [1414, 2793, 720])]
)
def test_the_real_splits_have_their_published_sizes(split, labels):
    rows = Sickr().read(split, Store.find(os.environ["EMBEDRUN_DATA"]))
    assert np.bincount(rows.targets["label"]).tolist() == labels
