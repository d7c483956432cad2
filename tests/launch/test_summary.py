import csv
import io
import json
from pathlib import Path

import pytest
from made_jobs import record

from embedrun.launch.summary import Result, Results, begin, is_of, result, text, write
from embedrun.runs.directory import Outcome

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

DEV, TEST = "stsb_dev/spearman", "sts/stsb/spearman"


def job(
    number: int,
    lr: str,
    dev: float | None,
    test: float | None = 50.0,
    *,
    seed: int | None = None,
    ends: tuple[float, float] | None = None,
    **more,
) -> Result:
    """A job; with `ends`, its run has this interval of the dev score over rows."""
    directory = Path(f"outputs/x/{number}")
    if ends is not None:
        directory.mkdir(parents=True)
        (directory / "results.json").write_text(json.dumps({"intervals": {DEV: ends}}))
    own = () if seed is None else (f"seed={seed}",)
    return Result(
        number=number,
        overrides=("+experiment=x", f"training.lr={lr}", *own, "loss=angle"),
        state="finished" if dev is not None else "failed",
        main=None if test is None else (TEST, test),
        dev=None if dev is None else (DEV, dev),
        directory=str(directory),
        **more,
    )


def seeds(lr: str, *devs: float, test: float = 50.0, first: int = 1, **more) -> list[Result]:
    """Jobs of the seeds 1, 2, ..., numbered from `lr` in tens."""
    return [
        job(10 * int(lr) + place, lr, dev, test, seed=first + place, **more) for place, dev in enumerate(devs)
    ]


def standings(results: Results) -> list[str | None]:
    return [group.standing for group in results.groups]


def test_the_best_group_is_told_by_dev_and_not_by_test():
    # Both seeds differ by 10, so that the interval of the difference has no width.
    results = Results([*seeds("1", 80, 82, test=70), *seeds("2", 90, 92, test=60)])
    assert results.swept == ["training.lr", "seed"]
    assert results.best is results.groups[1]
    assert standings(results) == ["worse", "best"]
    said = text(results).splitlines()
    assert "training.lr  n  stsb_dev/spearman  sts/stsb/spearman  standing" in said
    assert "2            2       91.00 ± 1.41       60.00 ± 0.00  best" in said
    assert "best by stsb_dev/spearman: training.lr=2, 91.00 ± 1.41 (n = 2)" in said
    assert any(line.startswith("several seeds: tied if 0 is in") for line in said)
    assert not any(line.startswith("one seed") for line in said)


@pytest.mark.parametrize(
    ("other", "standing"),
    [
        ((81, 83, 85), "tied"),  # differences 1, 2, 3: 2 ± 4.30/√3 holds 0
        ((83, 84, 86), "best"),  # differences 3, 3, 4: 3.33 ± 1.43 does not
    ],
)
def test_groups_are_tied_where_the_interval_of_their_difference_holds_zero(other, standing):
    results = Results([*seeds("1", 80, 81, 82), *seeds("2", *other)])
    assert results.best is results.groups[1]
    assert results.groups[1].standing == standing
    assert results.groups[0].standing == ("tied" if standing == "tied" else "worse")
    tied = "tied for the best by stsb_dev/spearman: training.lr=2, 83.00 ± 2.00 (n = 3); training.lr=1, 81.00"
    assert (tied in text(results)) is (standing == "tied")


@pytest.mark.parametrize(("high", "standing"), [(82.5, "tied"), (81.5, "worse")])
def test_of_one_seed_each_those_are_tied_whose_interval_over_rows_holds_the_best_score(high, standing):
    results = Results([job(0, "1", 80, ends=(78, high)), job(1, "2", 82, ends=(80.5, 83))])
    assert results.groups[0].standing == standing
    said = text(results)
    assert f"78.00 to {high:.2f}" in said
    assert "one seed: tied if its 95 % interval contains the other's score; the interval covers rows" in said
    assert "several seeds" not in said


def test_one_seed_without_an_interval_tells_no_best():
    results = Results([job(0, "1", 80), job(1, "2", 87.04), job(2, "3", 87.05)])
    assert results.best is None
    assert standings(results) == [None, None, None]
    assert "no best by stsb_dev/spearman: one seed and no interval over rows" in text(results)
    assert "standing" not in text(results)


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
    begin(Path("s"), "train", ["aa", "bb"])
    write(Path("s"), "train", ["aa", "bb"], Results([wild, other]))
    rows = list(csv.DictReader(io.StringIO(Path("s/summary.csv").read_text())))
    assert rows[0]["name"] == "'=1+1|x"
    assert (rows[0]["seed"], float(rows[0]["dev"]), rows[1]["main"]) == ("-5", 4.5, "")
    markdown = Path("s/summary.md").read_text()
    assert r"=1+1\|x" in markdown
    assert r"\`\<b\>\`" in markdown
    assert (record(Path("s"))["best"], record(Path("s"))["metric"]) == (None, DEV)


def test_files_hold_mean_deviation_and_number_of_each_group_and_which_are_tied():
    hashes = ["aa", "bb", "cc", "dd", "ee", "ff"]
    begin(Path("s"), "train", hashes)
    write(Path("s"), "train", hashes, Results([*seeds("1", 80, 81, 82), *seeds("2", 81, 83, 85)]))
    found = record(Path("s"))
    assert found["best"] == 1
    assert found["groups"][1] == {
        "options": {"training.lr": "2"},
        "jobs": [20, 21, 22],
        "score": {"mean": 83.0, "sd": 2.0, "n": 3},
        "main": {"mean": 50.0, "sd": 0.0, "n": 3},
        "interval_over_rows": None,
        "standing": "tied",
    }
    assert "| 2 | 3 | 83.00 ± 2.00 | 50.00 ± 0.00 | tied |" in Path("s/summary.md").read_text()


def test_a_folder_knows_its_jobs():
    begin(Path("s"), "train", ["aa", "bb"])
    assert is_of(Path("s"), "train", ["aa", "bb"])
    assert not is_of(Path("s"), "train", ["bb", "aa"])
    assert not is_of(Path("s"), "evaluate", ["aa", "bb"])
    assert not is_of(Path("t"), "train", ["aa", "bb"])
