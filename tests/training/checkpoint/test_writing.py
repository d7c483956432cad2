import json
import os
from pathlib import Path

import numpy as np
import operations
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from embedrun.training.checkpoint import published, save, verify

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"]


def content(checkpoint: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in checkpoint.iterdir()}


def test_a_checkpoint_is_whole_once_it_is_there(write):
    path = write(7)
    assert path.name == "step-00000007"
    assert sorted(file.name for file in path.iterdir()) == FILES
    assert verify(path) == []
    assert os.listdir(path.parent) == ["step-00000007"]


def test_state_is_plain_data_with_the_step_and_the_kind_of_optimizer(write):
    state = json.loads((write(3) / "state.json").read_text())
    assert (state["step"], state["best"], state["optimizer"]) == (3, {"step": 3}, "AdamW")
    assert state["versions"]["torch"] == torch.__version__


def test_the_moments_of_adam_are_saved_by_the_name_of_their_weight(write, model):
    first = model.first.weight.detach().clone()
    moments = load_file(write(1) / "optimizer.safetensors")
    kinds = ("step", "exp_avg", "exp_avg_sq")
    assert set(moments) == {f"{kind}/{name}" for kind in kinds for name in ("first.weight", "turned")}
    assert moments["step/turned"].item() == 1
    assert moments["exp_avg/turned"].shape == (3, 2)
    # The gradient of (sum of a row)^2 is twice that sum, and the first moment is (1 - beta1) of it.
    wanted = 0.1 * 2 * first.sum(dim=1, keepdim=True).expand(2, 3)
    torch.testing.assert_close(moments["exp_avg/first.weight"], wanted)


def test_frozen_weights_are_not_written_and_buffers_are(write, model):
    model.turned.requires_grad_(False)
    model.register_buffer("seen", torch.tensor([3.0]))
    assert set(load_file(write(1) / "model.safetensors")) == {"first.weight", "second.weight", "idle", "seen"}


def test_every_file_is_on_the_disk_before_the_checkpoint_has_its_name(write, folder):
    with operations.strike(0, operations.raise_killed, folder) as done:
        write(1)
    aside = ".tmp-step-00000001"
    written = [*(name for name in FILES if name != "manifest.json"), "manifest.json"]
    assert done == [
        "mkdir .",
        f"mkdir {aside}",
        *(f"{moment} {aside}/{name}" for name in written for moment in ("write", "tear")),
        *(f"fsync {aside}/{name}" for name in FILES),
        f"fsync {aside}",
        f"rename {aside}",
        "fsync .",
    ]
    assert os.listdir(folder) == ["step-00000001"]


def test_the_folder_itself_is_on_the_disk_before_anything_in_it(write, folder):
    with operations.strike(0, operations.raise_killed, folder.parent) as done:
        write(1)
    assert done[:3] == ["mkdir checkpoints", "fsync .", "mkdir checkpoints/.tmp-step-00000001"]


def test_a_checkpoint_of_the_same_step_is_replaced(write, folder):
    before = content(write(5))
    after = content(write(5))
    assert before["model.safetensors"] != after["model.safetensors"]
    assert os.listdir(folder) == ["step-00000005"]
    assert verify(folder / "step-00000005") == []


def test_the_same_state_gives_the_same_bytes(write, model, tmp_path):
    saved = content(write(1))
    optimizer = torch.optim.AdamW(model.parameters())
    twice = [
        content(save(tmp_path / name, step=1, model=model, optimizer=optimizer, state={})) for name in "ab"
    ]
    assert twice[0] == twice[1]
    assert twice[0]["model.safetensors"] == saved["model.safetensors"]


def test_saving_draws_no_random_number(write):
    torch.manual_seed(5)
    np.random.seed(5)
    wanted = (torch.rand(3).tolist(), np.random.rand(3).tolist())
    torch.manual_seed(5)
    np.random.seed(5)
    write(1)
    assert (torch.rand(3).tolist(), np.random.rand(3).tolist()) == wanted


def test_what_is_no_plain_data_is_refused_before_anything_is_written(folder, model):
    optimizer = torch.optim.AdamW(model.parameters())
    with pytest.raises(TypeError, match="Tensor is not JSON serializable"):
        save(folder, step=1, model=model, optimizer=optimizer, state={"loss": torch.ones(1)})
    assert not folder.exists()


def test_an_optimizer_without_moments_is_saved(folder):
    model = nn.Linear(2, 1)
    path = save(folder, step=0, model=model, optimizer=torch.optim.AdamW(model.parameters()), state={})
    assert load_file(path / "optimizer.safetensors") == {}
    assert verify(path) == []
    assert published(folder) == [0]
