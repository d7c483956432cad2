"""A power law through scores by rows: it is found, and its interval holds as often as it says."""

from pathlib import Path

import numpy as np
import pytest
from made_jobs import in_this_process

from embedrun.launch import launcher
from embedrun.rows import Rows
from embedrun.study.learning_curve import fitted_law, held_out

SIZES = (500, 1000, 2000, 4000)


def test_the_law_behind_exact_scores_is_found():
    law = fitted_law([(size, 85 - 60 * size**-0.5) for size in SIZES])
    assert law is not None
    assert law.at(16_000)[0] == pytest.approx(85 - 60 * 16_000**-0.5, abs=1e-3)
    assert fitted_law([(500, 80.0), (500, 80.1), (1000, 81.0), (1000, 81.2)]) is None  # two sizes
    # MiniLM on STS-B, 20 steps: no trend, and an interval of 20,000 points.
    assert fitted_law([(287, 82.38), (575, 82.23), (2300, 82.23), (4599, 82.43)]) is None


def test_a_further_run_is_inside_the_interval_as_often_as_it_says():
    generator, inside = np.random.default_rng(0), []
    for _ in range(200):
        points = [(n, 85 - 60 * n**-0.5 + 0.2 * generator.standard_normal()) for n in SIZES for _ in range(4)]
        if law := fitted_law(points):
            _, low, high = law.at(2000)
            inside.append(low <= 85 - 60 * 2000**-0.5 + 0.2 * generator.standard_normal() <= high)
    assert len(inside) >= 190  # noise may hide that the curve bends
    assert 0.91 <= np.mean(inside) <= 0.99


def test_the_largest_part_is_predicted_by_the_others():
    points = [(size, 85 - 60 * size**-0.5) for size in SIZES]
    # Without the largest, three sizes have two runs each; there a run is 1 below the curve.
    largest, measured, law = held_out([*points, *points[:3], (4000, points[3][1] - 1)])
    assert (largest, measured) == (4000, pytest.approx(points[3][1] - 0.5))
    assert law is not None
    assert law.at(4000)[0] == pytest.approx(points[3][1], abs=1e-3)


def test_a_smaller_part_of_the_rows_is_a_part_of_a_larger_one():
    rows = Rows("toy", "train", "text", {"text": [str(n) for n in range(100)]})
    parts = [set(rows.drawn(share, 7).texts["text"]) for share in (0.1, 0.4, 0.8)]
    assert [len(part) for part in parts] == [10, 40, 80]
    assert parts[0] < parts[1] < parts[2]


@pytest.mark.usefixtures("_alone", "_quick_plots")
def test_a_recipe_is_trained_on_growing_parts(embedrun, monkeypatch):
    monkeypatch.setattr(launcher, "run_in_child", in_this_process)
    words = (
        "learning-curve", "+experiment=quickstart", "training.max_steps=2", "dataset.train_rows=200",
        "dataset.test_rows=60", "--seeds", "1", "--fractions", "0.2,0.5,0.8",
    )  # fmt: skip
    ended = embedrun(*words)
    assert ended.code == 0, ended.err
    _, _, shown = ended.out.partition("rows  toy_test/spearman")
    assert [line.split()[0] for line in shown.splitlines()[2:5]] == ["40", "100", "160"]
    assert Path("outputs/tables/learning_curve_quickstart.png").is_file()
    assert embedrun(*words).err.count("finished before") == 3
    assert "is not three or more shares" in embedrun(*words[:-1], "0.2,2").err
