"""The score of a run with its resamples, as claims and marks read it from predictions."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_runs import made_run

from embedrun.errors import DataError
from embedrun.evaluation.scores import spearman
from embedrun.study.claims import Claim, Scored, sides_of
from embedrun.study.drawn import draws_of, scored


def test_a_clean_score_is_drawn_from_the_clean_rows_alone(tmp_path: Path):
    run = made_run(tmp_path, ["+experiment=quickstart"], 1, noise=2.0)
    path, key = run / "predictions/toy_test.parquet", "toy_test/spearman_clean"
    table = pq.read_table(path)
    clean = np.arange(60) >= 20  # (rows,)
    gold, predicted = (table[name].to_numpy()[clean] for name in ("gold", "score"))  # (40,) each
    results = json.loads((run / "results.json").read_text())
    results["scores"][key] = 100 * spearman(predicted, gold)
    (run / "results.json").write_text(json.dumps(results))
    with pytest.raises(DataError, match="does not say which rows are clean"):
        scored(run, key)
    pq.write_table(table.append_column("clean", [clean]), path)
    # A row that is not clean counts no more, whatever it has.
    wrong = table["score"].to_numpy().copy()
    wrong[~clean] = 1e6
    draws_of.cache_clear()
    found = scored(run, key)
    assert found.score == results["scores"][key]
    assert found.draws.std() > scored(run, "toy_test/spearman").draws.std()  # of fewer rows
    swapped = table.set_column(table.column_names.index("score"), "score", [wrong])
    pq.write_table(swapped.append_column("clean", [clean]), path)
    draws_of.cache_clear()
    assert np.array_equal(scored(run, key).draws, found.draws)


def test_runs_with_other_clean_rows_are_not_compared():
    runs = {name: {seed: Scored(1.0, np.zeros(9), rows=name) for seed in (1, 2)} for name in ("A", "B")}
    with pytest.raises(DataError, match="A and B: other test rows are clean for one than for the other"):
        sides_of(Claim("A over B", "A", "B"), runs)
