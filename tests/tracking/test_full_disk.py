"""The real trackers on a disk that fills, which wandb does not tell."""

import json
from pathlib import Path

import pytest
import small_disk

from embedrun.config import TrackingConfig
from embedrun.config.options import WandbConfig
from embedrun.tracking import mirrors
from embedrun.tracking.local import Tracker

KINDS = {"wandb": TrackingConfig(wandb=WandbConfig()), "tensorboard": TrackingConfig(tensorboard=True)}


@pytest.mark.slow
@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_of_a_tracker_is_one_warning_and_every_value_is_in_the_runs_own_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str
):
    folder = tmp_path / kind
    folder.mkdir()

    def train() -> None:
        started = mirrors(KINDS[kind], tmp_path, name="x", options={}, step=0)
        with Tracker(tmp_path, started) as tracker:
            for step in range(15_000):  # some 5 MB for wandb, 1 MB for TensorBoard
                tracker.metric(step=step, epoch=0.0, split="train", name="loss", value=1.0)

    if not small_disk.run(folder, 400_000, train):
        pytest.skip("this machine allows no file system of one's own; the injected error stands for it")
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(15_000))
    (warning,) = capfd.readouterr().err.splitlines()
    assert warning.startswith(f"warning: tracking.{kind}: No space left on device")
