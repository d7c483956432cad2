import pytest

from embedrun.commands.named import data_set, data_split, words
from embedrun.dataset.sts import Sts
from embedrun.dataset.stsb import Stsb
from embedrun.dataset.toy import Toy


def test_a_word_is_a_data_set_with_its_default_options():
    assert isinstance(data_set("stsb"), Stsb)
    assert isinstance(data_set("sts14"), Sts)
    assert data_set("sts14").name == "sts14"
    assert isinstance(data_set("toy"), Toy)


def test_every_word_gives_a_data_set():
    assert {"nli", "sickr", "stsb", "sts12", "sts16", "toy", "wiki1m"} <= set(words())
    assert {"sts", "pairs"}.isdisjoint(words())
    for word in words():
        assert data_set(word).splits


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stbs", r"no data set 'stbs'; did you mean 'stsb'\? \(there are: .*sts12, sts13"),
        ("sts17", r"no data set 'sts17'; did you mean 'sts1\d'\?"),
        ("pairs", r"'pairs' needs options \(path\), .*'embedrun check dataset=pairs dataset.path=...'"),
        ("sts", r"'sts' needs options \(year\)"),
    ],
)
def test_a_word_that_is_not_enough_is_refused_with_the_way_on(word, reason):
    with pytest.raises(ValueError, match=reason):
        data_set(word)


@pytest.mark.parametrize(
    ("word", "split", "found"),
    [("stsb", "test", "test"), ("stsb_dev", "test", "dev"), ("stsb_train", "dev", "train")],
)
def test_a_split_stands_behind_the_word_or_is_the_usual_one(word, split, found):
    dataset, chosen = data_split(word, split)
    assert isinstance(dataset, Stsb)
    assert chosen == found


@pytest.mark.parametrize(
    ("word", "split", "reason"),
    [
        ("nli", "test", r"nli has no test split \(it has: train\)"),
        ("sts12_dev", "test", r"sts12 has no dev split \(it has: test\)"),
        ("stsb", "tst", r"stsb has no tst split \(it has: train, dev, test\)"),
    ],
)
def test_a_split_that_is_not_there_is_refused_with_those_that_are(word, split, reason):
    with pytest.raises(ValueError, match=reason):
        data_split(word, split)
