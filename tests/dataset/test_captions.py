import os

import pytest

from embedrun.dataset.published import Captions
from embedrun.errors import DataError
from embedrun.store import Store


def image(name: str, *captions: object) -> dict:
    return {"image_id": name, "captions": list(captions)}


def test_an_image_that_stands_there_twice_is_refused_with_both_lines(store, write):
    path = write("flickr8k/captions.jsonl.gz", [image(name, "x", "y") for name in "aba"])
    with pytest.raises(DataError) as caught:
        Captions(set="flickr8k").read("test", store)
    assert caught.value.problems == [f"{path}, row 3: image_id: image 'a' is in row 1 already"]


def test_a_part_of_the_published_images_is_refused(store, write):
    # Among fewer captions every model finds the right ones more often.
    path = write("flickr30k/test_captions.jsonl.gz", [image(str(i), "x", "y") for i in range(999)])
    with pytest.raises(DataError) as caught:
        Captions().read("test", store)
    assert caught.value.problems[0] == f"{path}: 999 rows, the published data set has 1000"


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("options", "split", "images", "captions"),
    [
        ({}, "test", 1_000, 5_000),
        ({}, "dev", 1_014, 5_070),
        ({"split_of": "entities"}, "test", 1_000, 5_000),
        ({"split_of": "entities"}, "dev", 1_000, 5_000),
        ({"set": "flickr8k"}, "test", 8_092, 40_460),
        ({"set": "mscoco"}, "test", 5_000, 25_010),
    ],
)
def test_the_real_sets_have_their_images_and_captions(options, split, images, captions):
    rows = Captions(**options).read(split, Store.find(os.environ["EMBEDRUN_DATA"]))
    assert len(rows) == captions
    assert rows.targets["group"].max() + 1 == images
