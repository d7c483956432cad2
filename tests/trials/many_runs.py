"""Hundreds of made-up runs with real configurations, written in seconds."""

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from embedrun.config.compose import Compositions
from embedrun.runs.directory import to_yaml

LOSSES = ("angle_toy", "cosent", "raoe_only_rank", "sbert")
RATES = ("0.0001", "0.0003", "0.001")
CURVES = "".join(
    json.dumps({"step": 1, "epoch": 0.5, "split": split, "name": name, "value": 2.0}) + "\n"
    for split, name in (("train", "loss"), ("train", "lr"), ("dev", "toy_dev/spearman"))
)
_COMPOSITIONS = Compositions()
TEST, DEV = "toy_test/spearman", "toy_dev/spearman"


def many(folder: Path, count: int) -> None:
    """Runs of four losses, three learning rates and as many seeds as it takes; one in 40 was interrupted."""
    dice = random.Random(1)
    for number in range(count):
        loss, rate, seed = LOSSES[number % 4], RATES[number // 4 % 3], number // 12
        typed = ("+experiment=quickstart", f"loss={loss}", f"training.lr={rate}")
        config, choices = _composed(typed)
        path = folder / "quickstart" / f"2026-01-{1 + number % 28:02}_12-00-{number % 60:02}-{number:06x}"
        path.mkdir(parents=True)
        (path / "config.yaml").write_text(config.replace("seed: 42\n", f"seed: {seed}\n"))
        (path / "overrides.yaml").write_text(to_yaml([*typed, f"seed={seed}"]))
        (path / "choices.yaml").write_text(choices)
        began = f"2026-01-{1 + number % 28:02}T12:00:{number % 60:02}+00:00"
        state = "interrupted" if number % 40 == 39 else "finished"
        (path / "status.json").write_text(json.dumps({"state": state, "started": began, "step": 10}))
        (path / "metrics.jsonl").write_text(CURVES)
        (path / "speed.jsonl").write_text('{"memory": 2000000000}\n')
        if state == "finished":
            (path / "results.json").write_text(json.dumps(_results(dice.uniform(60, 90), dice)))
            (path / "report.html").write_text("<!doctype html>")


@cache
def _composed(typed: Sequence[str]) -> tuple[str, str]:
    config = {"schema": 1, **_COMPOSITIONS.config("train", typed)}
    return to_yaml(config), to_yaml(_COMPOSITIONS.choices("train", typed))


def _results(score: float, dice: random.Random) -> dict[str, object]:
    return {
        "main": {"name": TEST, "value": score},
        "scores": {TEST: score, DEV: score + 1.0},
        "intervals": {TEST: [score - 2.5, score + 2.5]},
        "baseline": {TEST: 33.96, DEV: 37.25},
        "notes": {"selected_by": DEV},
        "seconds": {"load": 3.0, "train": dice.uniform(60, 600)},
    }
