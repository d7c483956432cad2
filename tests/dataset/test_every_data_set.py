"""What every data set has: files, splits, rows of its form, and faulty lines that are refused."""

import numpy as np
import pytest
from small_data_sets import MADE, Made

from embedrun import family
from embedrun.dataset import files_of
from embedrun.errors import DataError

TYPES = {"score": np.float64, "label": np.int64, "category": np.int64, "group": np.int64}

every = pytest.mark.parametrize("made", MADE, ids=lambda made: f"{made.name}-{made.calls or made.split}")


@pytest.fixture
def written(made: Made, write) -> Made:
    for file, lines in made.files.items():
        write(file, lines)
    return made


def test_every_data_set_is_here_and_only_toy_has_no_file():
    assert {made.name for made in MADE} | {"toy"} == set(family.names("dataset"))


@every
def test_rows_are_those_of_the_file_in_its_order(written: Made, store):
    data = written.data(store)
    rows = data.read(written.split, store)
    assert (rows.name, rows.split, rows.form) == (written.calls or written.name, written.split, data.form)
    assert {view: texts[: len(written.texts[view])] for view, texts in rows.texts.items()} == written.texts
    assert set(rows.targets) == set(data.targets) == set(written.targets)
    for name, expected in written.targets.items():
        np.testing.assert_array_equal(rows.targets[name][: len(expected)], np.array(expected))
        assert rows.targets[name].dtype == TYPES[name]
    assert rows.subset == written.subset


@every
def test_files_are_those_of_the_store_that_are_read(made: Made, store):
    assert files_of(made.data(store), made.split, store) == ([] if made.own else list(made.files))


@every
def test_a_missing_file_is_a_problem_before_anything_is_read(made: Made, store):
    (problem,) = made.data(store).problems(made.split, store)
    own = f"dataset.path: no file '{store.root / made.first}'"
    assert problem.startswith(own if made.own else f"{', '.join(made.files)}: not in the data folder")
    with pytest.raises(DataError):
        made.data(store).read(made.split, store)


@every
def test_there_is_no_problem_where_the_file_is(written: Made, store):
    assert written.data(store).problems(written.split, store) == []


@every
def test_an_unknown_split_is_refused_with_those_that_there_are(written: Made, store):
    data = written.data(store)
    with pytest.raises(ValueError, match="no split 'all'") as caught:
        data.read("all", store)
    accepted = "give dataset.all=FILE" if written.own else ", ".join(data.splits)
    assert accepted in str(caught.value)
    assert data.splits == written.splits


@every
def test_all_faults_of_all_lines_are_named_with_their_numbers(written: Made, store, write):
    good = written.files[written.first]
    path = write(written.first, [*good, written.faulty, written.faulty])
    with pytest.raises(DataError) as caught:
        written.data(store).read(written.split, store)
    lines = (len(good) + 1, len(good) + 2)
    expected = [f"{path}, row {line}: {reason}" for line in lines for reason in written.reasons]
    assert sorted(caught.value.problems) == sorted(expected)


def test_toy_needs_no_file_and_has_its_splits_too():
    toy = family.find("dataset", "toy")()
    assert [toy.problems(split) for split in toy.splits] == [[], [], []]
    with pytest.raises(ValueError, match=r"no split 'all' \(there are: train, dev, test\)"):
        toy.read("all")
