"""Finished runs of the toy experiment that nobody has trained: files with the scores that a test gives."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from embedrun.config.compose import Compositions
from embedrun.evaluation.scores import spearman
from embedrun.family import code_of
from embedrun.runs.directory import config_hash

GOLD = np.arange(60.0) % 7  # (rows,)
COMPOSITIONS = Compositions()


def made_run(
    outputs: Path, overrides: Sequence[str], seed: int, *, noise: float, dev: float | None = 50.0
) -> Path:
    """A run whose scores are the gold ones with noise; the less, the better. `noise` and `seed` decide it.

    Of the dev rows there is a score alone; with None, predictions that are the gold ones.
    """
    noise += 0.02 * np.random.default_rng(seed).random()
    predicted = GOLD + noise * np.random.default_rng(0).standard_normal(60)  # (rows,)
    config = {**COMPOSITIONS.config("train", overrides), "seed": seed}
    run = outputs / str(config["name"]) / f"2026-01-01_00-00-00-{config_hash(config)[:6]}"
    (run / "predictions").mkdir(parents=True)
    table = pa.table({"text1": ["a"] * 60, "text2": ["b"] * 60, "gold": GOLD, "score": predicted})
    pq.write_table(table, run / "predictions" / "toy_test.parquet")
    if dev is None:
        pq.write_table(pa.table({"gold": GOLD, "score": GOLD}), run / "predictions" / "toy_dev.parquet")
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (run / "overrides.yaml").write_text(yaml.safe_dump([*overrides, f"seed={seed}"]))
    scores = {
        "toy_test/spearman": 100 * spearman(predicted, GOLD),
        "toy_dev/spearman": 100.0 if dev is None else dev,
    }
    main = {"name": "toy_test/spearman", "value": scores["toy_test/spearman"]}
    notes = {"selected_by": "toy_dev/spearman"}
    files = {
        "results": {"schema": 1, "main": main, "scores": scores, "notes": notes},
        "status": {"state": "finished", "ended": "2026-01-01T00:00:00+00:00"},
        "environment": {"versions": {"embedrun": "0.1.0"}, "data": code_of(config)},
    }
    for name, content in files.items():
        (run / f"{name}.json").write_text(json.dumps(content))
    return run
