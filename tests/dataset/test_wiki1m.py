import gzip

import pytest

from embedrun.dataset.wiki1m import Wiki1m
from embedrun.errors import DataError
from embedrun.rows import views_of
from embedrun.store import Store


def put(store: Store, relative: str, text: str) -> None:
    path = store.root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


def test_every_line_is_a_row_of_one_text(store: Store):
    put(store, "wiki/wiki_sentences.txt.gz", "A first one.\nAnd  a second.\n")
    rows = Wiki1m().read("train", store)
    assert (rows.name, rows.form, rows.targets) == ("wiki1m", "text", {})
    assert rows.texts == {"text": ["A first one.", "And  a second."]}


def test_the_whole_million_is_read_where_it_is_there(store: Store):
    assert Wiki1m().files("train", store) == ["wiki/wiki_sentences.txt.gz"]
    put(store, "wiki/wiki1m.txt.gz", "One of a million.\n")
    assert Wiki1m().files("train", store) == ["wiki/wiki1m.txt.gz"]
    assert Wiki1m().read("train", store).texts["text"] == ["One of a million."]


def test_an_empty_line_is_refused_with_its_number(store: Store):
    put(store, "wiki/wiki_sentences.txt.gz", "A first one.\n \nA third.\n\n")
    with pytest.raises(DataError, match=r"line 2: the text is empty[\s\S]*line 4: the text is empty"):
        Wiki1m().read("train", store)


def test_a_missing_file_is_a_problem_before_anything_is_read(store: Store):
    (problem,) = Wiki1m().problems("train", store)
    assert problem.startswith("wiki/wiki_sentences.txt.gz: not in the data folder")
    with pytest.raises(ValueError, match="no split 'dev'"):
        Wiki1m().files("dev", store)


def test_masked_copies_are_there_for_long_sentences_where_they_are_asked_for(store: Store):
    put(store, "wiki/wiki_sentences.txt.gz", "one two three\nfour five six seven eight\n")
    data_set = Wiki1m(masking={"least_words": 5})
    assert views_of(data_set) == ("text", "masked_once", "masked_twice")
    rows = data_set.read("train", store)
    assert rows.targets["maskable"].tolist() == [False, True]
    assert rows.masked is data_set.masking
    assert views_of(Wiki1m()) == ("text",)
    with pytest.raises(ValueError, match="masking: no option 'least'; did you mean 'least_words'"):
        Wiki1m(masking={"least": 5})


@pytest.mark.realdata
def test_the_sample_is_whole():
    rows = Wiki1m().read("train", Store.find())
    assert len(rows) == len(set(rows.texts["text"])) == 48_596
