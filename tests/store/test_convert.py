"""The subsets of rows that stand together."""

import os

import pytest

from embedrun.store import Store
from embedrun.store.catalogue import Catalogue
from embedrun.store.convert import mark, subsets_in_turn

COLUMNS = {"sentence1": ["a", "b", "c", "d", "e"], "sentence2": list("vwxyz")}
BLOCKS = {"web": [mark("d", "y"), mark("e", "z")], "news": [mark("a", "v"), mark("c", "x")]}
SIZES = {"web": 2, "news": 3}


def test_rows_that_stand_together_have_their_subset_in_whatever_order_these_come():
    assert subsets_in_turn(COLUMNS, BLOCKS, SIZES) == ["news"] * 3 + ["web"] * 2
    turned = {name: [*column[3:], *column[:3]] for name, column in COLUMNS.items()}
    assert subsets_in_turn(turned, BLOCKS, SIZES) == ["web"] * 2 + ["news"] * 3


@pytest.mark.parametrize("rows", ["acbde", "adbce", "abcdee", "abcd", ""])
def test_rows_that_do_not_stand_together_have_none(rows):
    columns = {name: [COLUMNS[name]["abcde".index(row)] for row in rows] for name in COLUMNS}
    assert subsets_in_turn(columns, BLOCKS, SIZES) == []


def test_a_pair_is_known_by_its_letters_and_digits():
    assert mark("``It's 5 . ''", "Yes") == mark("it s 5", "yes!")
    assert mark("a", "b") != mark("b", "a")


@pytest.mark.realdata
@pytest.mark.parametrize("year", range(12, 17))
def test_the_released_order_of_sts_is_the_one_that_is_known(year):
    name = f"sts/sts{year}.tsv.gz"
    known = Catalogue.read().file(name)
    columns = Store.find(os.environ["EMBEDRUN_DATA"]).read(name, ["subset", "sentence1", "sentence2"])
    assert known is not None
    assert known.hub is not None
    assert subsets_in_turn(columns, known.hub.blocks or {}, known.subsets or {}) == columns["subset"]
