import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.scores import Scores
from embedrun.experiment.scoring import Kept, finite_intervals, write_predictions

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


def test_pieces_of_any_name_stay_in_the_run_directory(tmp_path):
    (tmp_path / "run").mkdir()
    kept = Kept(tmp_path / "run")
    for name in ("../../away", "a/b", "", "x" * 400):
        kept.save(name, name, Scores({"s": 1.0}, "s"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "run"]  # here: where the test runs
    assert set(kept.load()) == {"../../away", "a/b", "", "x" * 400}


def test_a_piece_is_there_only_once_it_is_whole(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("embedrun.experiment.scoring.write_atomically", full)
    with pytest.raises(OSError, match="No space"):
        Kept(tmp_path).save("sts", "stsb", FOUND)
    assert (tmp_path / "predictions" / "stsb.parquet").is_file()
    assert Kept(tmp_path).load() == {}


def test_a_stage_of_a_run_keeps_its_pieces_and_predictions_apart(tmp_path):
    Kept(tmp_path, "untrained").save("sts", "stsb", FOUND)
    Kept(tmp_path, "trained").save("sts", "stsb", Scores({"s": 1.0}, "s"))
    assert Kept(tmp_path, "untrained").load()["sts"]["stsb"].predictions == FOUND.predictions
    assert Kept(tmp_path, "trained").load()["sts"]["stsb"].scores == {"s": 1.0}
    assert Kept(tmp_path).load() == {}
    assert [path.name for path in tmp_path.iterdir() if path.name != "here"] == [".parts"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]"])
def test_a_part_that_is_damaged_is_said_and_scored_again(tmp_path, capsys, content):
    kept = Kept(tmp_path)
    kept.save("sts", "stsb", FOUND)
    kept.save("sts", "sts12", Scores({"s": 1.0}, "s"))
    (path,) = [path for path in (tmp_path / ".parts").glob("*.part") if "stsb" in path.read_text()]
    path.write_bytes(content)
    assert list(kept.load()["sts"]) == ["sts12"]
    assert "its part is scored again" in capsys.readouterr().err


def test_a_part_without_its_predictions_is_scored_again(tmp_path, capsys):
    kept = Kept(tmp_path)
    kept.save("sts", "stsb", FOUND)
    (tmp_path / "predictions" / "stsb.parquet").write_bytes(b"broken")
    assert kept.load() == {}
    assert "its part is scored again" in capsys.readouterr().err


def test_a_model_that_gives_no_numbers_is_held_to_that(tmp_path):
    kept = Kept(tmp_path)
    nothing = np.full((2, 2), np.nan)
    kept.hold_to(nothing)
    kept.hold_to(nothing)
    with pytest.raises(ConfigError, match="gives other vectors"):
        kept.hold_to(np.ones((2, 2)))


def test_a_damaged_probe_is_a_fault_with_its_name(tmp_path):
    kept = Kept(tmp_path)
    kept.hold_to(np.ones((2, 2)))
    (tmp_path / ".parts" / "probe.json").write_text("{")
    with pytest.raises(DataError, match=r"probe\.json: cannot be read"):
        kept.hold_to(np.ones((2, 2)))


def test_a_run_goes_on_with_the_model_that_it_began_with(tmp_path):
    vectors = np.array([[3.0, 4.0], [0.0, 2.0]])
    kept = Kept(tmp_path)
    kept.hold_to(vectors)
    kept.hold_to(vectors * 5 + 1e-6)  # scaled to length 1 they are the same
    with pytest.raises(ConfigError, match="gives other vectors"):
        kept.hold_to(np.array([[4.0, 3.0], [0.0, 2.0]]))
    with pytest.raises(ConfigError, match="gives other vectors"):
        kept.hold_to(np.ones((2, 3)))


def test_predictions_replace_no_file_before_they_are_whole(tmp_path):
    write_predictions(FOUND, tmp_path / "predictions")
    assert [path.name for path in (tmp_path / "predictions").iterdir()] == ["stsb.parquet"]
    assert pq.read_table(tmp_path / "predictions" / "stsb.parquet").to_pydict() == FOUND.predictions["stsb"]


def test_an_undefined_interval_is_left_out():
    assert finite_intervals({"sts": FOUND}) == {"sts/stsb/spearman": (80.5, 83.5)}


def test_the_files_of_pieces_are_json(tmp_path: Path):
    Kept(tmp_path).save("sts", "stsb", FOUND)
    (path,) = (tmp_path / ".parts").glob("*.part")
    assert json.loads(path.read_text())["scores"]["sts/stsb/pearson"] is None
