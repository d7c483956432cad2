"""The rows that a run trains on, and those that pick its checkpoint."""

import gzip
import json
from pathlib import Path

import pytest

from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.experiment.data import Divided, divided
from embedrun.experiment.plan import plan_train
from embedrun.store import Store

pytestmark = pytest.mark.usefixtures("here")


def of_mrpc(store: Path, *overrides: str) -> Divided:
    request = Request(command="train", overrides=("+experiment=angle_mrpc", *overrides))
    return divided(plan_train(composed(request).config), Store(store))


def write(store: Path, name: str, rows: range) -> None:
    """Pairs with the labels that MRPC's training file has."""
    path = store / "senteval" / "mrpc" / f"{name}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    pairs = [{"sentence1": f"a {row}", "sentence2": f"b {row}", "label": int(row < 2753)} for row in rows]
    path.write_bytes(gzip.compress("".join(f"{json.dumps(pair)}\n" for pair in pairs).encode()))


def test_the_dev_pairs_of_mrpc_select_and_a_draw_in_their_place_is_said(tmp_path: Path):
    write(tmp_path, "train", range(4076))
    drawn = of_mrpc(tmp_path)
    assert (drawn.rows, drawn.selected_by) == (3668, "mrpc_drawn dev")
    assert "embedrun data get mrpc_dev fetches GLUE's" in drawn.said[0]

    write(tmp_path, "mrpc_dev", range(2753 - 279, 2753 + 129))
    glue = of_mrpc(tmp_path)
    assert (glue.rows, glue.selected_by, glue.said) == (3668, "mrpc dev", [])

    whole = of_mrpc(tmp_path, "dataset.dev_split=false", "training.dev=none")
    assert (whole.rows, whole.dev) == (4076, None)
