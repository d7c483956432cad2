"""What every data set has: files, splits, rows of its form, and faulty lines that are refused."""

import numpy as np
import pytest
from small_data_sets import MADE, Made

from embedrun import family
from embedrun.dataset import files_of
from embedrun.errors import DataError

TYPES = {"score": np.float64, "label": np.int64, "category": np.int64, "group": np.int64}

every = pytest.mark.parametrize("made", MADE, ids=lambda made: f"{made.name}-{made.calls or made.split}")


def test_every_data_set_is_here_and_only_toy_and_mixtures_have_no_file():
    # tests/dataset/test_ranked.py and tests/evaluation/test_ir.py have the last three.
    others = {"toy", "mix", "ranked", "classes", "judged"}
    assert {made.name for made in MADE} | others == set(family.names("dataset"))


@every
def test_a_missing_file_is_a_problem_and_then_rows_are_those_of_the_file(made: Made, store, write):
    data = made.data(store)
    assert (files_of(data, made.split, store), data.splits) == (
        [] if made.own else list(made.files),
        made.splits,
    )
    (problem,) = data.problems(made.split, store)
    own = f"dataset.path: no file '{store.root / made.first}'"
    assert problem.startswith(own if made.own else f"{', '.join(made.files)}: not in the data folder")
    with pytest.raises(DataError):
        data.read(made.split, store)
    with pytest.raises(ValueError, match="no split 'all'"):
        data.read("all", store)
    for file, lines in made.files.items():
        write(file, lines)
    assert data.problems(made.split, store) == []
    rows = data.read(made.split, store)
    assert (rows.name, rows.split, rows.form) == (made.calls or made.name, made.split, data.form)
    assert {view: texts[: len(made.texts[view])] for view, texts in rows.texts.items()} == made.texts
    assert set(rows.targets) == set(data.targets) == set(made.targets)
    for name, expected in made.targets.items():
        np.testing.assert_array_equal(rows.targets[name][: len(expected)], np.array(expected))
        assert rows.targets[name].dtype == TYPES[name]
    assert rows.subset == made.subset


@every
def test_all_faults_of_all_lines_are_named_with_their_numbers(made: Made, store, write):
    for file, lines in made.files.items():
        write(file, lines)
    good = made.files[made.first]
    path = write(made.first, [*good, made.faulty, made.faulty])
    with pytest.raises(DataError) as caught:
        made.data(store).read(made.split, store)
    lines = (len(good) + 1, len(good) + 2)
    expected = [f"{path}, row {line}: {reason}" for line in lines for reason in made.reasons]
    assert sorted(caught.value.problems) == sorted(expected)
