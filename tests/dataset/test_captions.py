import pytest

from embedrun.dataset.published import Captions
from embedrun.errors import DataError


def image(name: str, *captions: object) -> dict:
    return {"image_id": name, "captions": list(captions)}


def test_an_image_that_stands_there_twice_is_refused_with_both_lines(store, write):
    path = write("flickr8k/captions.jsonl.gz", [image(name, "x", "y") for name in "aba"])
    with pytest.raises(DataError) as caught:
        Captions(set="flickr8k").read("test", store)
    assert caught.value.problems == [f"{path}, row 3: image_id: image 'a' is in row 1 already"]
