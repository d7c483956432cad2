import pytest

from embedrun.dataset import views_of
from embedrun.dataset.published import Wiki1m


def test_masked_copies_are_there_for_long_sentences_where_they_are_asked_for(store, write):
    write("wiki/wiki_sentences.txt.gz", ["one two three", "four five six seven eight"])
    data_set = Wiki1m(masking={"least_words": 5})
    assert views_of(data_set) == ("text", "masked_once", "masked_twice")
    rows = data_set.read("train", store)
    assert rows.targets["maskable"].tolist() == [False, True]
    assert rows.masked is data_set.masking
    assert views_of(Wiki1m()) == ("text",)
    with pytest.raises(ValueError, match=r"masking\.least: .* did you mean 'least_words'"):
        Wiki1m(masking={"least": 5})
