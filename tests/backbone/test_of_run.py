from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_models import put
from torch import nn

from embedrun.backbone import locate
from embedrun.config import AdapterConfig, BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.errors import DataError
from embedrun.training import checkpoint as written

TEXTS = ["a little dog ran", "the cat", "who runs? nobody's cat liked that"]
SHAPE = ScratchConfig(vocabulary=120, layers=1, width=16, heads=2, positions=32)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    return str(put(tmp_path_factory.mktemp("models") / "bert", "bert"))


def trained(run: Path, backbone: BackboneConfig, pooling: PoolingConfig, **more: Any) -> Encoder:
    """An encoder whose every trained weight has moved, and its checkpoint of step 2 in a run directory."""
    encoder = Encoder.build(backbone, pooling, seed=1, vocabulary_texts=TEXTS)
    weights = [weight for weight in encoder.parameters() if weight.requires_grad]
    with torch.no_grad():
        for place, weight in enumerate(weights):
            weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(place))
    run.mkdir(parents=True)
    model = nn.ModuleDict({"encoder": encoder, "mix": nn.Linear(2, 2)})
    optimizer = torch.optim.AdamW(model.parameters())
    written.save(run / "checkpoints", step=2, model=model, optimizer=optimizer, state={})
    plain = {"schema": 1, "backbone": vars(backbone), "pooling": vars(pooling)}
    plain["backbone"] = {key: getattr(one, "__dict__", one) for key, one in vars(backbone).items()}
    plain["evaluation"] = {"tasks": {}, "max_length": backbone.max_length, **more}
    (run / "config.yaml").write_text(yaml.safe_dump(plain))
    return encoder.eval()


def step_of(run: Path) -> Path:
    return run / "checkpoints" / "step-00000002"


def vectors(folder: Path) -> np.ndarray:
    return Encoder.load(folder).encode(TEXTS)


@pytest.mark.parametrize(
    "pooling",
    [
        PoolingConfig(),
        PoolingConfig(name="cls", normalize=True),
        PoolingConfig(name="first_last_mean", first_layer=1),
        PoolingConfig(name="cls_mlp"),  # its layer is of training alone
    ],
    ids=lambda pooling: pooling.name,
)
@pytest.mark.parametrize("finished", [False, True])
def test_a_checkpoint_gives_the_vectors_of_the_encoder_that_was_saved(base, tmp_path, pooling, finished):
    encoder = trained(tmp_path / "run", BackboneConfig(name=base, max_length=6), pooling)
    if finished:
        Encoder.build(BackboneConfig(name=base, max_length=6), pooling, seed=2).save(tmp_path / "run/model")
    expected = encoder.encode(TEXTS)
    assert np.abs(expected - Encoder.load(base).encode(TEXTS)).max() > 1e-3
    np.testing.assert_allclose(vectors(step_of(tmp_path / "run")), expected, atol=1e-6)


def test_a_checkpoint_can_be_trained_on_and_saved(base, tmp_path):
    encoder = trained(tmp_path / "first", BackboneConfig(name=base), PoolingConfig(name="cls"))
    step = step_of(tmp_path / "first")
    np.testing.assert_array_equal(vectors(step), encoder.encode(TEXTS))
    second = trained(tmp_path / "second", BackboneConfig(name=str(step)), PoolingConfig(name="mean"))
    assert second.backbone.origin == {"name": str(step), "commit": None}
    np.testing.assert_allclose(vectors(step_of(tmp_path / "second")), second.encode(TEXTS), atol=1e-6)
    Encoder.load(step_of(tmp_path / "second")).save(tmp_path / "saved")
    np.testing.assert_allclose(vectors(tmp_path / "saved"), second.encode(TEXTS), atol=1e-6)


def test_an_adapter_is_put_back_beside_its_base(base, tmp_path):
    backbone = BackboneConfig(name=base, adapter=AdapterConfig(r=2, targets=["query", "value"]))
    encoder = trained(tmp_path / "run", backbone, PoolingConfig(name="mean"))
    found = Encoder.load(step_of(tmp_path / "run"))
    np.testing.assert_allclose(found.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    found.save(tmp_path / "saved")
    np.testing.assert_allclose(vectors(tmp_path / "saved"), encoder.encode(TEXTS), atol=1e-6)


def test_a_backbone_from_nothing_needs_the_finished_run(tmp_path):
    backbone = BackboneConfig(name=None, scratch=SHAPE)
    encoder = trained(tmp_path / "run", backbone, PoolingConfig(name="mean"))
    with pytest.raises(DataError, match=r"trained from scratch.*embedrun resume .*run$"):
        locate(str(step_of(tmp_path / "run")))
    Encoder.build(backbone, PoolingConfig(name="mean"), seed=5, vocabulary_texts=TEXTS).save(
        tmp_path / "run/model"
    )
    np.testing.assert_allclose(vectors(step_of(tmp_path / "run")), encoder.encode(TEXTS), atol=1e-6)


def flip(step: Path) -> None:
    path = step / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (flip, "model.safetensors: is missing or damaged"),
        (lambda step: (step / "model.safetensors").unlink(), "is missing or damaged"),
        (lambda step: (step / "manifest.json").write_text('{"schema": 9, "files": {"model.safetensors": '
         '{"bytes": 1, "sha256": "a"}}}'), "schema 9, and this version of embedrun reads 2"),
    ],
)  # fmt: skip
def test_a_broken_checkpoint_is_refused_before_a_model_is_loaded(base, tmp_path, damage, says):
    trained(tmp_path / "run", BackboneConfig(name=base), PoolingConfig())
    step = step_of(tmp_path / "run")
    assert locate(str(step)) == step
    damage(step)
    with pytest.raises(DataError, match=says):
        locate(str(step))


def test_weights_of_another_model_are_refused(base, tmp_path):
    trained(tmp_path / "run", BackboneConfig(name=base), PoolingConfig())
    other = put(tmp_path / "roberta", "roberta")
    path = tmp_path / "run" / "config.yaml"
    path.write_text(path.read_text().replace(base, str(other)))
    with pytest.raises(DataError, match=r"belongs to another model than .*: \d+ of the weights differ"):
        Encoder.load(step_of(tmp_path / "run"))
