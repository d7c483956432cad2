"""Hundreds of made-up runs with real configurations and long curves, written in seconds."""

import json
import math
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from embedrun.config.compose import Compositions
from embedrun.runs.directory import to_yaml

LOSSES = ("angle_toy", "cosent", "raoe_only_rank", "sbert")
RATES = ("0.0001", "0.0003", "0.001")
_COMPOSITIONS = Compositions()
TEST, DEV = "toy_test/spearman", "toy_dev/spearman"


def many(folder: Path, count: int, *, steps: int = 1_000) -> None:
    """Runs of four losses, three learning rates and as many seeds as it takes; one in 40 was interrupted.

    Each has `steps` values of its loss and a fifth as many dev scores. Scores differ, curves in one of ten.
    """
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
        (path / "status.json").write_text(json.dumps({"state": state, "started": began, "step": 10 * steps}))
        (path / "metrics.jsonl").write_text(_curves(steps, number % 10))
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


@cache
def _curves(steps: int, seed: int) -> str:
    dice, lines = random.Random(seed), []
    for step in range(steps):
        fallen = math.exp(-5 * step / steps)
        values = {("train", name): 4 * fallen + dice.random() for name in ("loss", "loss/cosent", "lr")}
        if step % 5 == 0:
            values["dev", DEV] = 80 - 30 * fallen + dice.random()
        for (split, name), value in values.items():
            row = {"step": 10 * step + 1, "epoch": 0.5, "split": split, "name": name, "value": value}
            lines.append(json.dumps(row))
    return "\n".join(lines) + "\n"
