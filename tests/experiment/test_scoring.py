"""Scores of a run: the pieces that are kept, those on dev rows, and the table shown."""

import math

import pytest

from embedrun.config import TrainingConfig
from embedrun.dataset.toy import Toy
from embedrun.errors import ConfigError
from embedrun.evaluation.scores import Scores
from embedrun.experiment import scoring
from embedrun.experiment.scoring import Kept, table

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

FOUND = Scores(
    scores={"sts/stsb/spearman": 82.03, "sts/stsb/pearson": math.nan},
    main="sts/stsb/spearman",
    predictions={"stsb": {"gold": [1.0, 2.5], "score": [0.25, 0.75], "subset": ["x", "y"]}},
    intervals={"sts/stsb/spearman": (80.5, 83.5), "sts/stsb/pearson": (math.nan, math.nan)},
    shown=("sts/stsb/spearman",),
    notes={"engine": "torch"},
)


def test_a_piece_comes_back_as_it_was_found(tmp_path):
    Kept(tmp_path).save("sts", "stsb", FOUND)
    back = Kept(tmp_path).load()["sts"]["stsb"]
    assert back.scores["sts/stsb/spearman"] == 82.03
    assert math.isnan(back.scores["sts/stsb/pearson"])
    assert (back.main, back.shown, back.notes) == (FOUND.main, FOUND.shown, FOUND.notes)
    assert back.predictions == FOUND.predictions
    assert back.intervals == {"sts/stsb/spearman": (80.5, 83.5)}


def test_a_piece_is_there_only_once_it_is_whole(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("embedrun.experiment.scoring.write_atomically", full)
    with pytest.raises(OSError, match="No space"):
        Kept(tmp_path).save("sts", "stsb", FOUND)
    assert (tmp_path / "predictions" / "stsb.parquet").is_file()
    assert Kept(tmp_path).load() == {}


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]"])
def test_a_part_that_is_damaged_is_said_and_scored_again(tmp_path, capsys, content):
    kept = Kept(tmp_path)
    kept.save("sts", "stsb", FOUND)
    kept.save("sts", "sts12", Scores({"s": 1.0}, "s"))
    (path,) = [path for path in (tmp_path / ".parts").glob("*.part") if "stsb" in path.read_text()]
    path.write_bytes(content)
    assert list(kept.load()["sts"]) == ["sts12"]
    assert "its part is scored again" in capsys.readouterr().err


SENTEVAL = Scores(
    scores={"senteval/mr/accuracy_fast": 70.0, "senteval_dev/mr/accuracy_fast": 60.0},
    main="senteval/mr/accuracy_fast",
    predictions={"senteval_fast_mr": {"gold": [1], "predicted": [0]}},
    intervals={"senteval/mr/accuracy_fast": (1.0, 2.0)},
    shown=("senteval/mr/accuracy_fast",),
    notes={"engine": "numba"},
)
OWN = Scores({"toy_dev/spearman": math.nan}, "toy_dev/spearman", {"toy_dev": {"gold": [1.0], "score": [1.0]}})


def test_no_score_on_test_rows_is_left_and_dev_scores_stay_as_they_are():
    found = scoring.dev_alone({"dev": OWN, "dev_tasks.senteval": SENTEVAL})
    assert found["dev"] is OWN
    kept = found["dev_tasks.senteval"]
    assert kept.scores == {"senteval_dev/mr/accuracy_fast": 60.0}
    assert kept.main == "senteval_dev/mr/accuracy_fast"
    assert (kept.predictions, kept.intervals, kept.shown) == ({}, {}, ())
    assert kept.notes == SENTEVAL.notes


def test_a_score_that_there_is_not_is_refused_with_those_that_there_are():
    known = scoring.own_keys(Toy(dev_rows=2).read("dev", None))  # type: ignore[arg-type]
    assert known == ["toy_dev/spearman", "toy_dev/spearman_clean"]
    scoring.check_select_by(TrainingConfig(select_by="toy_dev/spearman_clean"), known)
    with pytest.raises(ConfigError, match="did you mean 'toy_dev/spearman'") as refused:
        scoring.check_select_by(TrainingConfig(select_by="toy_dev/spearmann"), known)
    assert "(there are: toy_dev/spearman, toy_dev/spearman_clean)" in str(refused.value)


def test_trained_scores_stand_beside_the_untrained_ones():
    lines = table({"a": 82.5, "new": 1.0}, {"a": 80.0}, {}).splitlines()
    assert lines[0].split() == ["score", "before", "training", "trained", "difference"]
    assert lines[2].split() == ["a", "80.00", "82.50", "+2.50"]
    assert lines[3].split() == ["new", "-", "1.00", "-"]


def test_scores_of_cut_vectors_can_select():
    dev = Toy(dev_rows=2).read("dev", None)  # type: ignore[arg-type]
    scoring.check_select_by(TrainingConfig(select_by="toy_dev/spearman@8"), scoring.own_keys(dev, [8]))
    with pytest.raises(ConfigError, match="no dev score 'toy_dev/spearman@8'"):
        scoring.check_select_by(TrainingConfig(select_by="toy_dev/spearman@8"), scoring.own_keys(dev))
