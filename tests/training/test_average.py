"""The moving average of the weights: by hand, beside what is trained, and in a run that was stopped."""

import os
import signal
from pathlib import Path

import pytest
import torch
from one_weight import batch, stepper, weight
from safetensors.torch import load_file

from embedrun.training.average import averaged
from embedrun.training.step import Stepper

TAKE = Stepper.take
pytestmark = pytest.mark.usefixtures("_alone")


def test_the_average_by_hand_and_training_as_without_it():
    one, without = stepper(ema=0.26), stepper()
    weights = []
    for step in range(1, 4):
        one.take(step, 3, [batch([2], [1.0])])
        without.take(step, 3, [batch([2], [1.0])])
        weights.append(weight(one))
    assert weight(one) == weight(without)
    # The decay is 2/11 at step 1, 3/12 at step 2 and 4/13, which is more than 0.26, at step 3.
    wanted = 0.26 * (0.25 * weights[0] + 0.75 * weights[1]) + 0.74 * weights[2]
    with averaged(one.optimizer):
        assert weight(one) == pytest.approx(wanted, rel=1e-6)
    assert weight(one) == weights[-1]


def test_a_run_keeps_the_averages_also_after_a_stop(embedrun, options, monkeypatch):
    steps = (
        "training.max_steps=4",
        "training.ema=0.5",
        "training.save_every=1",
        "training.keep_checkpoints=9",
    )
    assert embedrun("train", *options, *steps, "hydra.run.dir=whole").code == 0

    def take(self: Stepper, step: int, *rest, **more):
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return TAKE(self, step, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "take", take)
        assert embedrun("train", *options, *steps, "hydra.run.dir=stopped").code == 143
    assert embedrun("resume", "stopped").code == 0
    models = [Path(run, "model", "model.safetensors") for run in ("whole", "stopped")]
    assert models[0].read_bytes() == models[1].read_bytes()
    places = [Path("whole", "checkpoints", f"step-{step:08d}", "model.safetensors") for step in range(1, 5)]
    trained = [load_file(path) for path in places]
    name = next(name for name in trained[0] if name.endswith("embeddings.word_embeddings.weight"))
    average = trained[0][name]
    for step, weights in enumerate(trained[1:], 2):
        decay = min(0.5, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * weights[name]
    kept = load_file(models[0])["embeddings.word_embeddings.weight"]
    assert torch.allclose(kept, average, atol=1e-7)
    assert not torch.equal(kept, trained[-1][name])
