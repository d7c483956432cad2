import csv
import io
from pathlib import Path

import pytest

from embedrun.study.tune.distributions import split
from embedrun.study.tune.study import Claim, Ended, Row, Study
from embedrun.study.tune.trial import draw, search, table, to_csv, way_on

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

pytest.importorskip("optuna")
METRIC = "toy_dev/spearman"
SEARCHED = split(["n=int(1,40)", "loss=choice(angle,cosent)"]).searched


def studied(folder: Path, trials: int, *, lowest: bool = False) -> Study:
    """A study whose scores are the whole numbers that it tried; the trial of an odd first number fails."""

    def run(claim: Claim) -> Ended:
        return Ended(reason="no") if claim.number == 1 else Ended(METRIC, float(claim.values["n"]))

    study = Study.open(folder, SEARCHED, {}, {}, seed=1, lowest=lowest, prunes=False)
    search(study, trials, run, lambda: None)
    return study


@pytest.mark.parametrize("lowest", [False, True])
def test_the_table_has_the_ten_best_of_all_the_best_first(tmp_path: Path, lowest: bool):
    study = studied(tmp_path / "s", 12, lowest=lowest)
    lines = table(study, SEARCHED).splitlines()
    assert lines[0].split() == ["trial", METRIC, "n", "loss"]
    scores = [float(line.split()[1]) for line in lines[2:12]]
    every = sorted((row.score for row in study.rows() if row.score is not None), reverse=not lowest)
    assert scores == every[:10]
    assert [int(line.split()[2]) for line in lines[2:12]] == scores
    assert "the best 10 of 12; 12 finished, 1 failed" in lines


def test_fewer_trials_than_ten_are_all_there(tmp_path: Path):
    lines = table(studied(tmp_path / "s", 2), SEARCHED).splitlines()
    assert lines[4:6] == ["", "2 finished, 1 failed"]


def test_the_command_is_quoted_for_a_shell_and_has_no_control_characters():
    said = way_on(["+experiment=x", "a=[1,2]", "b=o'clock", "c=\x1b[2J"], Path("my yaml"))
    assert (
        said
        == "embedrun train +experiment=x 'a=[1,2]' 'b=o'\"'\"'clock' 'c=\ufffd[2J' --config-dir 'my yaml'"
    )


def test_a_spreadsheet_computes_nothing_of_the_csv_and_numbers_stay_numbers():
    searched = split(["a=choice(=1+1,-x)", "b=uniform(-1,1)"]).searched
    rows = [
        Row(0, "finished", -3.5, {"a": "=1+1", "b": -0.25}, 1.5, None),
        Row(1, "failed", None, {"a": "-x", "b": 0.25}, None, '@x,\x1b"y'),
        Row(2, "waiting", None, {}, None, None),
    ]
    read = list(csv.reader(io.StringIO(to_csv(rows, searched, None))))
    assert read == [
        ["trial", "state", "score", "a", "b", "seconds", "reason"],
        ["0", "finished", "-3.5", "'=1+1", "-0.25", "1.5", ""],
        ["1", "failed", "", "'-x", "0.25", "", "'@x,\ufffd\"y"],
        ["2", "waiting", "", "", "", "", ""],
    ]


def test_each_option_has_a_plot_named_like_it(tmp_path: Path):
    searched = split(["hydra.x=1", "backbone/size=choice(a,b)", "n=logint(1,9)"]).searched
    study = Study.open(tmp_path / "s", searched, {}, {}, seed=1, lowest=False, prunes=False)
    draw(study, searched)
    assert not (study.folder / "plots").exists()  # there is nothing to show yet
    search(study, 2, lambda claim: Ended(METRIC, float(claim.values["n"])), lambda: None)
    draw(study, searched)
    plots = sorted(path.name for path in (study.folder / "plots").iterdir())
    assert plots == ["backbone.size.png", "history.png", "n.png"]
