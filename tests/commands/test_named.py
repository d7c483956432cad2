import pytest

from embedrun.dataset.captions import Captions
from embedrun.dataset.mrpc import Mrpc
from embedrun.dataset.named import data_set, data_split, words
from embedrun.dataset.senteval import Senteval
from embedrun.dataset.sts import Sts
from embedrun.dataset.stsb import Stsb
from embedrun.dataset.toy import Toy


def test_a_word_is_a_data_set_with_its_default_options():
    assert isinstance(data_set("stsb"), Stsb)
    assert isinstance(data_set("sts14"), Sts)
    assert data_set("sts14").name == "sts14"
    assert isinstance(data_set("toy"), Toy)


@pytest.mark.parametrize("word", ["mr", "cr", "subj", "mpqa", "sst2", "trec"])
def test_a_task_of_senteval_is_a_word(word):
    assert isinstance(data_set(word), Senteval)
    assert data_set(word).name == word


@pytest.mark.parametrize("word", ["flickr30k", "flickr8k", "mscoco", "flickr30k_entities"])
def test_a_set_of_captions_is_a_word(word):
    assert isinstance(data_set(word), Captions)
    assert data_set(word).name == word


def test_the_pairs_of_mrpc_are_meant_and_not_the_transfer_task():
    assert isinstance(data_set("mrpc"), Mrpc)


def test_every_word_gives_a_data_set():
    assert {"nli", "sickr", "stsb", "sts12", "sts16", "toy", "wiki1m", "qqp", "qnli"} <= set(words())
    assert {"sts", "senteval", "captions", "pairs"}.isdisjoint(words())
    for word in words():
        assert data_set(word).splits


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stbs", r"no data set 'stbs'; did you mean 'stsb'\? \(there are: .*sts12, sts13"),
        ("sts17", r"no data set 'sts17'; did you mean 'sts1\d'\?"),
        ("pairs", r"'pairs' needs options \(path\), .*'embedrun check dataset=pairs dataset.path=...'"),
        ("sts", r"'sts' needs options \(year\)"),
        ("flickr", r"no data set 'flickr'; did you mean 'flickr8k'\?"),
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
    ("word", "found"),
    [("mr", "train"), ("subj", "train"), ("trec", "test"), ("flickr30k_entities_dev", "dev")],
)
def test_a_set_without_a_split_is_taken_whole(word, found):
    assert data_split(word, "test")[1] == found


@pytest.mark.parametrize(
    ("word", "split", "reason"),
    [
        ("qqp", "test", r"qqp has no test split \(it has: train, dev\)"),
        ("mr_test", "test", r"mr has no test split \(it has: train\)"),
        ("nli", "test", r"nli has no test split \(it has: train\)"),
        ("sts12_dev", "test", r"sts12 has no dev split \(it has: test\)"),
        ("stsb", "tst", r"stsb has no tst split \(it has: train, dev, test\)"),
    ],
)
def test_a_split_that_is_not_there_is_refused_with_those_that_are(word, split, reason):
    with pytest.raises(ValueError, match=reason):
        data_split(word, split)
