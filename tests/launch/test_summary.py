import csv
import io
import json
from pathlib import Path

import pytest
from made_jobs import record

from embedrun.launch.summary import Result, Results, begin, draw, is_of, result, text, write
from embedrun.runs.directory import Outcome

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

DEV, TEST = "stsb_dev/spearman", "sts/stsb/spearman"


def job(number: int, lr: str, dev: float | None, test: float | None = 50.0, **more) -> Result:
    return Result(
        number=number,
        overrides=("+experiment=x", f"training.lr={lr}", "loss=angle"),
        state="finished" if dev is not None else "failed",
        main=None if test is None else (TEST, test),
        dev=None if dev is None else (DEV, dev),
        directory=f"outputs/x/{number}",
        **more,
    )


def test_the_best_is_told_by_dev_and_not_by_test():
    results = Results(
        [job(0, "1", dev=80, test=70), job(1, "2", dev=82, test=60), job(2, "3", dev=81, test=90)]
    )
    assert results.best is results.jobs[1]
    assert results.swept == ["training.lr"]
    assert "best: job 1 (training.lr=2), stsb_dev/spearman 82.00, outputs/x/1" in text(results)


def test_the_lowest_is_best_where_the_run_selects_it():
    results = Results([job(0, "1", dev=3, lowest=True), job(1, "2", dev=2, lowest=True)])
    assert results.best is results.jobs[1]


def test_without_dev_scores_it_is_the_main_score():
    jobs = [
        Result(number, (f"model={number}",), "finished", main=(TEST, value))
        for number, value in ((0, 5.0), (1, 4.0))
    ]
    assert Results(jobs).metric == TEST
    assert Results(jobs).best is jobs[0]


def test_the_main_score_is_best_where_it_is_highest_whatever_selects_a_checkpoint():
    jobs = [
        Result(0, (), "finished", main=(TEST, 5.0), dev=("a_dev/loss", 1.0), lowest=True),
        Result(1, (), "finished", main=(TEST, 4.0), dev=("b_dev/loss", 1.0), lowest=True),
    ]
    assert Results(jobs).best is jobs[0]


@pytest.mark.parametrize(
    ("notes", "key"),
    [({}, "toy_dev/spearman"), ({"selected_by": "senteval_dev/mr/accuracy"}, "senteval_dev/mr/accuracy"),
     ({"selected_by": "toy_dev/spearman_clean"}, None)],
)  # fmt: skip
def test_the_dev_score_is_that_which_selected(notes, key):
    scores = {"senteval_dev/mr/accuracy": 1.0, "toy_dev/spearman": 2.0}
    Path("results.json").write_text(json.dumps({"scores": scores, "notes": notes}))
    found = result(0, [], {}, Outcome("."))
    assert found.dev == (None if key is None else (key, scores[key]))


def test_scores_that_are_not_of_one_kind_have_no_best():
    jobs = [
        Result(0, (), "finished", main=(TEST, 5.0)),
        Result(1, (), "finished", main=("geometry/alignment", 0.2)),
    ]
    assert Results(jobs).best is None


def test_a_failed_job_has_its_reason_below_the_table():
    failed = Result(1, ("seed=2",), "failed", reason="out of \x1b[31mmemory")
    said = text(Results([Result(0, ("seed=1",), "finished", main=(TEST, 5.0)), failed]))
    assert said.splitlines()[-3:] == ["job 1: out of \ufffd[31mmemory", "", "1 finished, 1 failed"]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome("a"), "finished"),
        (Outcome(error="no luck", code=4), "failed"),
        (Outcome(error="killed", code=-9), "failed"),
        (Outcome(error="interrupted", code=130), "interrupted"),
        (Outcome(error="not started", code=143), "not started"),
    ],
)
def test_the_state_of_a_job(outcome, state):
    assert result(0, [], {}, outcome).state == state


def test_files_hold_what_was_found_and_no_formula_nor_markup():
    wild = Result(0, ("name==1+1|x", "seed=-5"), "finished", main=(TEST, 5.0), dev=(DEV, 4.5), directory="a")
    other = Result(1, ("name=b", "seed=2"), "failed", reason="`<b>`")
    results = Results([wild, other])
    begin(Path("s"), "train", ["aa", "bb"])
    write(Path("s"), "train", ["aa", "bb"], results)
    rows = list(csv.DictReader(io.StringIO(Path("s/summary.csv").read_text())))
    assert rows[0]["name"] == "'=1+1|x"
    assert (rows[0]["seed"], float(rows[0]["dev"]), rows[1]["main"]) == ("-5", 4.5, "")
    markdown = Path("s/summary.md").read_text()
    assert r"=1+1\|x" in markdown
    assert r"\`\<b\>\`" in markdown
    assert (record(Path("s"))["best"], record(Path("s"))["metric"]) == (0, DEV)


def test_a_folder_knows_its_jobs():
    begin(Path("s"), "train", ["aa", "bb"])
    assert is_of(Path("s"), "train", ["aa", "bb"])
    assert not is_of(Path("s"), "train", ["bb", "aa"])
    assert not is_of(Path("s"), "evaluate", ["aa", "bb"])
    assert not is_of(Path("t"), "train", ["aa", "bb"])


@pytest.fixture
def drawn(monkeypatch) -> list:
    calls = []
    monkeypatch.setattr("embedrun.plot.against", lambda *rest, **more: calls.append((rest, more)))
    return calls


def test_a_number_that_spans_over_thirty_times_is_on_a_logarithmic_axis(drawn):
    draw(Results([job(0, "1e-5", 1), job(1, "3e-4", 2)]), Path("p"))  # exactly 30 times
    draw(Results([job(0, "1e-5", 1), job(1, "3.1e-4", 2)]), Path("p"))
    assert [more["log"] for _, more in drawn] == [False, True]
    assert [point[0] for point in drawn[0][0][0]] == [1e-5, 3e-4]


def test_words_are_points_in_their_own_order(drawn):
    draw(Results([job(0, "big", 1), job(1, "1", 2), job(2, "2", None, None)]), Path("p"))
    ((points, best, labels, path), more) = drawn[0]
    assert [point[:2] for point in points] == [("big", 1.0), ("1", 2.0)]
    assert (best, labels, path.name) == (("1", 2.0), ("training.lr", DEV), "training.lr.png")
    assert more == {"log": False, "order": ["big", "1"]}


def test_one_score_draws_nothing(drawn):
    draw(Results([job(0, "1", 1), job(1, "2", None, None)]), Path("p"))
    assert drawn == []


def test_the_plots_are_files(tmp_path):
    draw(Results([job(0, "1e-5", 1), job(1, "1e-3", 2)]), tmp_path / "plots")
    assert (tmp_path / "plots" / "training.lr.png").read_bytes()[:4] == b"\x89PNG"
