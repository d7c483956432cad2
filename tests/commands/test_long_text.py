import json
from pathlib import Path

import numpy as np
import yaml

from embedrun.encoder import Encoder

# Windows of 4 tokens, so that the generated sentences have several.
RAN = (
    "backbone=ran_tiny",
    "backbone.scratch.layers=1",
    "backbone.scratch.width=16",
    "backbone.scratch.window=4",
    "backbone.scratch.min_window=2",
)


def test_a_ran_is_trained_saved_and_evaluated_like_any_backbone(embedrun, options):
    rows = [option for option in options if not option.startswith("backbone.")]
    ended = embedrun("train", *rows, *RAN, "training.micro_batch_size=6")
    assert ended.code == 0, ended.err
    (run,) = Path("outputs/quickstart").iterdir()
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["backbone"]["scratch"]["architecture"] == "ran"
    results = json.loads((run / "results.json").read_text())
    assert np.isfinite(results["main"]["value"])
    assert json.loads((run / "model" / "config.json").read_text())["model_type"] == "embedrun_ran"
    assert Encoder.load(run).encode(["a long text " * 50]).shape == (1, 16)
    again = embedrun("evaluate", f"model={run}", "evaluation=heldout", "dataset=toy", "dataset.test_rows=16")
    assert again.code == 0, again.err
