import base64
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from embedrun.report.page import gather
from embedrun.report.scores import ScoredPairs
from embedrun.runs.directory import to_yaml
from embedrun.runs.reading import RunFiles

# The smallest picture: one pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def rich(tmp_path: Path) -> Callable[[str], dict]:
    """The facts of a run that has everything; each of its names and texts begins with a word of one's own."""

    def make(word: str) -> dict:
        folder = tmp_path / "run"
        (folder / "plots").mkdir(parents=True, exist_ok=True)
        (folder / "plots" / "a_density.png").write_bytes(PIXEL)
        key, task, term = f"{word}/spearman", f"{word}_dev/spearman", f"{word} term"
        rows = [(step, "train", "loss", 2.0 / step) for step in range(1, 9)]
        rows += [
            (step, "train", f"{what}/{term}", 1 / step) for step in (1, 5) for what in ("active", "violated")
        ]
        rows += [(step, "train", f"loss/{term}", None if step == 3 else 1.5) for step in range(1, 6)]
        rows += [(step, "dev", task, 40.0 + step) for step in (0, 4, 8)]
        lines = [dict(zip(("step", "split", "name", "value"), row, strict=True)) for row in rows]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "speed.jsonl").write_text('{"rows_per_second": 12.5, "memory": 2000000}\n')
        (folder / "overrides.yaml").write_text(to_yaml([f"name={word}"]))
        one = {"name": word, "split": "test", "subset": None, "rows": 10, "pairs": 1, "sentences": 2}
        seen = {
            "rule": f"{word} rule",
            "training": {"seen": [{"name": word, "split": "train", "rows": 5}], "sets": [one]},
        }
        (folder / "contamination.json").write_text(json.dumps(seen))
        config = {
            "name": word,
            "backbone": {"name": word},
            "pooling": {"name": word},
            "loss": {"terms": {term: {"weight": 0.5}}},
            "dataset": {"name": word},
            "training": {"batch_size": 4, "lr": 2e-5, "schedule": word},
        }
        environment = {
            "command": f"embedrun {word}",
            "python": word,
            "cpu": {"threads": 1},
            "gpu": [word],
            "code": {"commit": word, "dirty": True},
            "versions": {word: word},
            "data": {word: word},
        }
        results = {
            "main": {"name": key, "value": 60.0},
            "scores": {key: 60.0, f"{key}_clean": 58.0, task: 48.0, "geometry/alignment": 0.25},
            "intervals": {key: [55.0, 64.0]},
            "baseline": {key: 40.0},
            "notes": {word: word},
            "counts": {word: 10, "train_rows": 100, "steps": 8, "best_step": 4},
            "seconds": {word: 70.0, "train": 9.0},
        }
        status = {
            "state": "failed",
            "started": word,
            "ended": "2026-01-01T12:00:00+00:00",
            "error": f"{word} ended",
        }
        texts = ([f"{word} left {row}" for row in range(12)], [f"{word} right {row}" for row in range(12)])
        gold, cosine = np.arange(12.0), np.arange(12.0)[::-1] / 12
        run = RunFiles(folder)
        run.status.update(status)
        run.config.update(config)
        run.environment.update(environment)
        run.results.update(results)
        return gather(
            run,
            predictions=[
                ScoredPairs(word, key, gold, cosine, texts),
                ScoredPairs(f"{word} dev", task, gold, cosine, missing=f"{word} is not at hand."),
            ],
            remarks=[f"{word} is broken"],
        )

    return make
