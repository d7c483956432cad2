"""`scripts/study`: what is published of a run, the page made of it, and what is in the repository."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from script_module import script

from embedrun.evaluation.sts import SETS
from embedrun.files import to_json
from embedrun.study import registration
from embedrun.table import load
from embedrun.table.cells import Cells

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/results.md"
ANGLE, COSENT = "Labels/AnglE", "Labels/CoSENT"
PAIRS = "Labels/AnglE without in-batch negatives"


objectives = script("objectives")
FEW = (
    "Untrained/no layer, the floor",
    ANGLE,
    COSENT,
    "Labels/AnglE, weights of 2024",
    PAIRS,
)


@pytest.fixture(scope="module")
def few_slots() -> list[Any]:
    """The slots of some rows and seeds: to compose all takes half a minute."""
    table = load(objectives.TABLE)
    rows = tuple(row for row in table.rows if row.id in FEW)
    return Cells([], extra=objectives.PLACEHOLDERS).find(replace(table, rows=rows), (1, 2, 3))


@pytest.fixture(autouse=True)
def _few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("slow") is None:
        slots = request.getfixturevalue("few_slots")
        monkeypatch.setattr(objectives, "slots", lambda: slots)


def compared(row: str, seed: int, score: float, spread: float = 0.01, **more: Any) -> dict[str, Any]:
    """What is published of a compared run."""
    draws = score + spread * np.linspace(-1, 1, 400)  # (draws,)
    training = {"rows": 12032, "texts": 2, "tokens": 370000 + seed, "steps": 188, "lr": 1e-4, "MiB": 1500}
    return {
        "rows": [row],
        "column": "STS-7",
        "identity": f"{score - seed / 10:.2f}",
        "machine": "a processor, 1 thread",
        "commit": "0123abcd",
        "seed": seed,
        "training": training,
        "seconds": {"train": 90.0, "evaluate": 30.0},
        "scores": {"sts/avg/spearman": score + 1},
        "clean": score,
        "clean draws": draws.tolist(),
        "clean pairs": 18000,
        "last clean": score - 0.5,
        "idle": ["loss.terms.angle"] if score > 69.9 else [],
        **more,
    }


def tried(lr: float, *values: float) -> dict[str, Any]:
    """What is published of a run that chooses the lr."""
    dev = [[50 * step, value] for step, value in enumerate(values)]
    machine = {"machine": "a processor, 1 thread", "commit": "0123abcd", "seconds": {"train": 60.0}}
    own = {"column": f"dev, {lr:g}", "identity": f"{lr:g}", "seed": 11}
    return {**own, "training": {"lr": lr}, "dev": dev, **machine}


def test_a_row_has_means_spreads_and_counts_of_its_runs():
    line = objectives._numbers([compared(ANGLE, 1, 70.0), compared(ANGLE, 2, 71.0)])
    # 70 and 71: mean 70.5, standard deviation 0.71; whole sets are 1 above, the last checkpoint 0.5 below.
    assert line == [
        "0.0001", "2", "12,032", "370,002", "188", "1.5", "1,500",
        "71.50 ± 0.71 (2)", "70.50 ± 0.71 (2)", "70.00 ± 0.71 (2)",
    ]  # fmt: skip
    assert set(objectives._numbers([])) == {"-"}


def test_a_claim_is_decided_where_both_rows_are_there():
    found = {
        ANGLE: [compared(ANGLE, seed, 70.0 + seed / 10, spread=0.05) for seed in (1, 2, 3)],
        COSENT: [compared(COSENT, seed, 69.0 + seed / 10) for seed in (1, 2, 3)],
        PAIRS: [compared(PAIRS, seed, 69.05 + seed / 10, spread=0.02) for seed in (1, 2, 3)],
    }
    ((title, made),) = objectives.decisions(found)
    assert title == "The parts of AnglE and of ArcCSE"
    assert [(one.claim.name, one.verdict) for one in made] == [
        ("the angle term over cosine alone", "undecided"),  # 0.05 is less than 0.3
        ("in-batch negatives help", "yes"),
    ]
    page = objectives.page(found)
    # Seeds agree. Resampled differences stray evenly by up to 0.03, a deviation of 0.03 / sqrt(3) = 0.0173;
    # Holm's first interval, at 0.025 with 4 degrees of freedom, has 3.495 of that on either side.
    assert "| in-batch negatives help | +0.95, +0.95, +0.95 | +0.95 | +0.89 to +1.01 | " in page
    assert "| the angle term over cosine alone | +0.05, +0.05, +0.05 | +0.05 | " in page
    assert (
        "9 runs, 0.3 hours of one thread, on a processor, 1 thread; begun at 0123abcd." in page
    )  # 9 of 2 min
    assert "Not shared with STS-B dev and NLI: 18,000 pairs." in page
    assert page.count("the term angle was 0 at every logged step") == 1
    early = objectives.page(found, missing=2)
    assert f"2 of {len(objectives.cells())} runs are missing" in early
    assert "undecided" not in early
    assert "undecided; 0.30 could have been shown |" in page


def test_the_best_dev_score_chooses_the_lr_and_another_one_is_named():
    # What was scored before training chooses none.
    runs = [tried(3e-5, 63.0, 61.0), tried(1e-4, 63.0, 62.5, 62.1), tried(3e-4, 63.0, 62.0)]
    assert objectives.rates({ANGLE: runs}, ANGLE) == {3e-5: 61.0, 1e-4: 62.5, 3e-4: 62.0}
    assert objectives.rates({ANGLE: runs[:2]}, ANGLE) == {}
    (wrong,) = objectives.wrong_rates({ANGLE: runs})
    assert wrong == f"{ANGLE}: 0.0001, not 0.0003"
    line = "| Labels: AnglE, weights 1/1/1 (assumed) | 61.00 | **62.50** | 62.00 |"
    page = objectives.page({ANGLE: runs, "Labels/AnglE, weights of 2024": [tried(3e-4, 63.0, 64.0)]})
    assert line in page
    assert "| Labels: AnglE, weights of 2024 | - | - | 64.00 |" in page  # tried with one lr, and not compared
    assert page.count("weights of 2024") == 1


@pytest.fixture
def scored_run(tmp_path: Path) -> Path:
    """A finished run whose cosines order nine of ten pairs of each set as the gold scores do."""
    run = tmp_path / "run"
    (run / "predictions").mkdir(parents=True)
    for name in SETS:
        gold = np.arange(10.0)  # (pairs,)
        score = np.array([9, *range(1, 9), 0]) / 10  # (pairs,); the first and the last change places
        pq.write_table(pa.table({"gold": gold, "score": score}), run / "predictions" / f"{name}.parquet")
    scores = {"sts/avg/spearman": 1.0, "sts/stsb.images/spearman": 2.0, "sts/avg/pearson": 3.0}
    results = {"scores": scores, "counts": {"steps": 188, "sts/stsb.images": 5}, "seconds": {"train": 60.0}}
    (run / "results.json").write_text(to_json(results))
    (run / "config.yaml").write_text(
        "dataset: {name: nli, form: triplet}\ngpu: {threads: 1}\nseed: 1\n"
        "training: {max_steps: 188, batch_size: 64, lr: 0.0001}\n"
    )
    dev = {"split": "dev", "name": "stsb_dev/spearman"}
    rows = [{**dev, "step": step, "value": value} for step, value in ((0, 60.0), (50, 61.0), (188, 60.5))]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "speed.jsonl").write_text('{"step": 9, "rows_per_second": 40, "tokens_per_second": 1200}\n')
    return run


def test_what_is_published_of_a_run_has_no_folder_and_leaves_out_shared_pairs(scored_run, monkeypatch):
    stays = np.array([False, *[True] * 9])  # without the first pair one is out of place, which costs more
    monkeypatch.setattr(objectives, "kept", lambda: {"clean": dict.fromkeys(SETS, stays)})
    monkeypatch.setattr(objectives, "touched", lambda config: 0.25)
    cell = next(cell for cell in objectives.cells() if cell.name == "angle" and cell.column == "STS-7")
    found = objectives.published(cell, scored_run, 1234)
    # Ranks 1 to 9 against 2 to 9 and 1: the squares of the differences add up to 8 + 64, so that
    # Spearman is 1 - 6 * 72 / (9 * 80).
    assert found["clean"] == pytest.approx(100 * (1 - 6 * 72 / 720))
    assert len(found["clean draws"]) == objectives.DRAWS
    assert (found["clean pairs"], found["touched"]) == (63, 0.25)
    assert found["scores"] == {"sts/avg/spearman": 1.0}
    assert found["counts"] == {"steps": 188}
    assert found["training"] == {
        "rows": 12032, "texts": 3, "tokens": 360960, "steps": 188, "lr": 1e-4, "MiB": 1234,
    }  # fmt: skip
    assert found["dev"] == [[0, 60.0], [50, 61.0], [188, 60.5]]
    assert "backbone.name=MINILM" in found["options"]
    assert str(scored_run) not in objectives.as_json(found)
    assert json.loads(objectives.as_json(found)) == found


def test_the_rows_of_every_claim_share_seeds():
    rows = {row.id: row for row in load(objectives.TABLE).rows}
    claims = registration.read(str(objectives.CLAIMS)).claims
    assert len(claims) == 17
    for claim in claims:
        both = [rows[side].cells[0].seeds for side in (claim.better, claim.worse)]
        assert len({*both[0]} & {*both[1]}) >= 3


@pytest.mark.slow
def test_the_page_is_made_of_what_is_published():
    text = PAGE.read_text(encoding="utf-8")
    found = objectives.all_done()
    assert objectives.BEGIN in text
    assert objectives.renewed(text, found, len(objectives.undone())) == text
    assert objectives.wrong_rates(found) == []
