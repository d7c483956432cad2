import math
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from embedrun.errors import ConfigError, RunFailed
from embedrun.study import trials as tune_trials
from embedrun.study.distributions import Searched, split
from embedrun.study.trials import Claim, Ended, Study
from embedrun.study.tune import search

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

X = ("x=uniform(0,1)",)
SMALL = ("x=choice(a,b,c)", "y=int(1,2)")  # six combinations
METRIC = "toy_dev/spearman"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(tune_trials, "POLL", 0.01)


def searched(*overrides: str) -> list[Searched]:
    return split(overrides or X).searched


def opened(
    folder: Path, *overrides: str, options=None, data=None, seed=42, lowest=False, prunes=False
) -> Study:
    study = Study(folder, searched(*overrides), seed=seed, lowest=lowest, prunes=prunes)
    study.check({"seed": seed} if options is None else options, data or {})
    return study


def score(values) -> float:
    """Highest, 100, at x = 0.3."""
    return 100 - 100 * abs(values["x"] - 0.3)


def run(claim: Claim) -> Ended:
    return Ended(METRIC, score(claim.values))


def nothing() -> None:
    pass


def killed(study: Study, wanted: int) -> Claim:
    """Claim a trial and die: the trial is running, and nobody holds it."""
    claim = study.claim(wanted)
    assert claim is not None
    claim.lock.release()
    return claim


def values(study: Study) -> list[float]:
    return [row.values["x"] for row in study.rows()]


def test_a_search_ends_with_the_trials_that_were_wanted_and_knows_the_best(tmp_path: Path):
    study = opened(tmp_path / "s")
    search(study, 12, run, nothing)
    rows = study.rows()
    assert [(row.number, row.state) for row in rows] == [(number, "finished") for number in range(12)]
    assert len(set(values(study))) == 12
    best = study.best()
    assert best is not None
    assert best.score == max(score({"x": x}) for x in values(study))
    assert study.metric == METRIC


def test_a_search_that_was_killed_proposes_what_it_would_have_proposed(tmp_path: Path):
    whole = opened(tmp_path / "whole")
    search(whole, 12, run, nothing)
    for done in (0, 7):
        search(study := opened(tmp_path / f"after-{done}"), done, run, nothing)
        killed(study, 12)
        search(again := opened(tmp_path / f"after-{done}"), 12, run, nothing)
        assert values(again) == values(whole)
        assert [row.state for row in again.rows()] == ["finished"] * 12


def test_two_workers_share_the_trials_and_do_none_twice(tmp_path: Path):
    ran: Counter[int] = Counter()
    by: dict[int, int] = {}

    def work(worker: int) -> None:
        def one(claim: Claim) -> Ended:
            ran[claim.number] += 1
            by[claim.number] = worker
            time.sleep(0.01)
            return run(claim)

        search(opened(tmp_path / "s"), 12, one, nothing)

    killed(opened(tmp_path / "s"), 12)  # a third one died in its first trial
    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    study = opened(tmp_path / "s")
    assert ran == Counter(range(12))
    assert set(by.values()) == {0, 1}
    assert len(set(values(study))) == 12
    assert study.done() == 12


def test_no_combination_is_tried_twice_and_a_search_ends_when_all_have_been(tmp_path: Path):
    study = opened(tmp_path / "s", *SMALL)
    search(study, 12, lambda claim: Ended(METRIC, float(claim.values["y"])), nothing)
    tried = {(row.values["x"], row.values["y"]) for row in study.rows()}
    assert tried == {(x, y) for x in "abc" for y in (1, 2)}
    assert study.done() == 6


def test_five_failures_in_a_row_end_the_search_and_four_do_not(tmp_path: Path, capsys):
    study = opened(tmp_path / "s")
    search(study, 1, lambda claim: Ended(reason="no\nluck") if claim.number < 4 else run(claim), nothing)
    assert [row.state for row in study.rows()] == ["failed"] * 4 + ["finished"]
    assert (study.rows()[1].reason, study.rows()[1].score) == ("no luck", None)
    with pytest.raises(RunFailed, match="5 trials in a row failed, the last because: again") as fault:
        search(study, 2, lambda _: Ended(reason="again"), nothing)
    assert fault.value.exit_code == 1
    assert len(study.rows()) == 10
    assert "trial 9 failed: again (best" in capsys.readouterr().err


def test_a_trial_below_the_median_of_five_others_is_pruned_at_its_step(tmp_path: Path):
    study = opened(tmp_path / "s", prunes=True)

    def one(claim: Claim) -> Ended:
        if claim.number < 5:  # 10, 20, 30, 40, 50 at step 2: the median is 30
            assert not claim.report(2, 10.0 * (claim.number + 1))
            return Ended(METRIC, 10.0 * (claim.number + 1))
        assert not claim.report(1, 0.0)  # nobody else has a score there
        assert not claim.report(2, 31.0) if claim.number == 5 else claim.report(2, 29.0)
        return Ended(METRIC, 31.0) if claim.number == 5 else Ended(pruned=True)

    search(study, 7, one, nothing)
    assert [row.state for row in study.rows()] == ["finished"] * 6 + ["pruned"]
    assert study.rows()[6].score == 29.0
    assert study.done() == 7
    best = study.best()
    assert best is not None
    assert best.number == 4  # a pruned trial is never the best


def test_a_study_of_other_options_is_refused_with_what_has_changed(tmp_path: Path):
    opened(tmp_path / "s", options={"seed": 1, "training.lr": 2e-5})
    with pytest.raises(ConfigError) as fault:
        opened(tmp_path / "s", "x=uniform(0,2)", options={"seed": 1, "training.lr": 3e-5})
    assert fault.value.problems == [
        f"{key} since study s began; change it back, or name another study with --study"
        for key in ("training.lr: 2e-05 -> 3e-05", "x: uniform(0.0,1.0) -> uniform(0.0,2.0)")
    ]


def test_a_journal_whose_last_line_was_torn_by_a_kill_goes_on(tmp_path: Path):
    search(opened(tmp_path / "s"), 2, run, nothing)
    with (tmp_path / "s" / "journal.log").open("a") as journal:
        journal.write('{"op_code":4,"wor')
    search(opened(tmp_path / "s"), 4, run, nothing)
    assert opened(tmp_path / "s").done() == 4


def test_a_study_of_other_data_is_refused_with_what_has_changed(tmp_path: Path):
    opened(tmp_path / "s", options={}, data={"toy/train": ["a", "b"], "toy/dev": ["c"]})
    opened(tmp_path / "s", options={}, data={"toy/train": ["a", "b"], "more/test": ["d"]})
    with pytest.raises(ConfigError) as fault:
        opened(tmp_path / "s", options={}, data={"toy/train": ["a", "x"], "toy/dev": ["c"]})
    assert fault.value.problems == [
        "toy/train: is not what study s began with; restore it, or name another study with --study"
    ]


def test_the_first_eight_trials_cover_every_range_evenly(tmp_path: Path):
    study = opened(tmp_path / "s", "x=loguniform(1,256)", "y=int(1,4)", "z=choice(a,b)", "w=uniform(0,1)")
    search(study, 8, lambda claim: Ended(METRIC, 0.0), nothing)
    rows = [row.values for row in study.rows()]
    # One of eight in each eighth of a range, an equal number for each whole number and each choice.
    assert sorted(int(math.log2(row["x"])) for row in rows) == list(range(8))
    assert sorted(int(8 * row["w"]) for row in rows) == list(range(8))
    assert Counter(row["y"] for row in rows) == dict.fromkeys(range(1, 5), 2)
    assert Counter(row["z"] for row in rows) == {"a": 4, "b": 4}
