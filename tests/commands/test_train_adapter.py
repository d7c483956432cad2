"""Training an adapter through the command line, from the start to the finished run directory."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaModel

from embedrun.backbone.scratch import make
from embedrun.config import ScratchConfig

TEXTS = ["the dog runs in the park", "an old man reads a book", "two cats sleep", "a girl sings"]
WORDS = 58  # pieces that they make


@pytest.fixture
def llama(tmp_path) -> Path:
    torch.manual_seed(0)
    shape = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}
    LlamaModel(LlamaConfig(**shape, num_attention_heads=2, max_position_embeddings=40)).save_pretrained(
        tmp_path / "llama"
    )
    _, tokenizer = make(
        ScratchConfig(vocabulary=200, layers=1, width=8, positions=40), TEXTS, attention="sdpa"
    )
    tokenizer.save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def overrides(llama: Path, *more: str) -> tuple[str, ...]:
    return (
        "+experiment=quickstart",
        "backbone=llama2_7b",
        f"backbone.name={llama}",
        "backbone.adapter.quantize=null",
        "backbone.adapter.r=2",
        "pooling=last_token",
        "dataset.train_rows=48",
        "dataset.dev_rows=16",
        "dataset.test_rows=16",
        "training.batch_size=16",
        "training.evaluate_every=1",
        *more,
    )


def test_a_run_keeps_the_adapter_alone_and_its_scores_come_back(embedrun, llama):
    options = ("training.max_steps=3", "training.gradient_checkpointing=true", "training.micro_batch_size=5")
    trained = embedrun("train", *overrides(llama, *options, "hydra.run.dir=run"))
    assert trained.code == 0, trained.err
    matrices = 2 * 2 * (4 * 32 + 3 * 40)  # layers x rank x (4 x (16 + 16) + 3 x (16 + 24))
    weights = WORDS * 16 + 16 + 2 * (4 * 256 + 3 * 384 + 2 * 16)
    assert f"{matrices:,} of {weights + matrices:,} parameters trainable" in trained.err
    for step in Path("run/checkpoints").iterdir():
        found = load_file(step / "model.safetensors")
        assert sum(weight.numel() for name, weight in found.items() if ".lora_" in name) == matrices
        assert not any("base_layer" in name or "embed_tokens" in name for name in found)
    assert not Path("run/model/config.json").exists()
    assert load_file("run/model/adapter_model.safetensors")
    sizes = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16")
    where = ("model=run", "gpu=cpu", "hydra.run.dir=again")
    scored = embedrun("evaluate", "evaluation=heldout", "dataset=toy", *sizes, *where)
    assert scored.code == 0, scored.err
    wanted, found = (
        json.loads(Path(name, "results.json").read_text())["scores"] for name in ("run", "again")
    )
    assert found == {name: pytest.approx(wanted[name], abs=1e-4) for name in found}
    assert found
