import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from minilm import minilm_folder
from safetensors.torch import load_file, save_file

from embedrun.backbone import bert, pretrained
from embedrun.backbone.tokens import reading
from embedrun.backbone.transformer import Backbone
from embedrun.commands import encode
from embedrun.config import BackboneConfig, PoolingConfig
from embedrun.encoder import Encoder

TEXTS = [
    "A dog runs.",
    "",
    "Čeština, ÀÉÎ naïve CAFÉ [SEP] and [mask]",
    "unbelievably   hyphen-ated\ttext\x00, 日本語 and 12,345.67 €",
    "a word " * 400,
    "x" * 200,
]


def test_options_of_the_tokenizer_do_what_they_do_in_transformers(tmp_path):
    folder = copied(tmp_path)
    (folder / "modules.json").unlink()  # its poolings are not copied
    changed("tokenizer_config.json", do_lower_case=False)(folder)
    ours, whole = both(folder)
    assert ours.tokenize(TEXTS).ids.tolist() == whole.tokenize(TEXTS).ids.tolist()
    assert reading(ours) == reading(whole)


def none_needed() -> None:
    raise AssertionError("transformers was asked for")


def both(folder: Path) -> tuple[Backbone, Backbone]:
    """The same folder read here, and by transformers."""
    ours = Encoder.load(folder).backbone
    assert isinstance(ours.encoding, bert.Bert)
    whole = Encoder.build(BackboneConfig(name=str(folder)), PoolingConfig(), seed=0).eval().backbone
    assert not isinstance(whole.encoding, bert.Bert)
    return ours, whole


@pytest.fixture(scope="module")
def minilm() -> tuple[Backbone, Backbone]:
    return both(minilm_folder())


def copied(folder: Path) -> Path:
    for file in minilm_folder().iterdir():
        if file.is_file() and file.suffix in (".json", ".txt"):
            shutil.copy(file, folder / file.name)
    (folder / "model.safetensors").symlink_to(minilm_folder() / "model.safetensors")
    return folder


def changed(name: str, **keys: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))

    return change


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("padded", [True, False])
def test_every_layer_is_that_of_transformers(minilm, precision: str, padded: bool):
    ours, whole = minilm
    table = whole.tokenize(TEXTS if padded else TEXTS[:1], 40)
    ids = torch.zeros(len(table), int(table.lengths.max()), dtype=torch.long)  # (texts, tokens)
    mask = torch.zeros_like(ids)  # (texts, tokens)
    for row in range(len(table)):
        own = torch.from_numpy(np.array(table.ids[table.starts[row] : table.starts[row + 1]]))  # (tokens,)
        ids[row, : len(own)], mask[row, : len(own)] = own, 1
    options = {"input_ids": ids, "attention_mask": mask if padded else None, "output_hidden_states": True}
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        found, expected = ours.encoding(**options), whole.model(**options)
    assert len(found.hidden_states) == len(expected.hidden_states) == 7
    for one, other in zip(found.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(one[mask.bool()], other[mask.bool()], rtol=0, atol=1e-6)
    assert found.last_hidden_state is found.hidden_states[-1]


def test_token_ids_and_their_key_are_those_of_transformers(minilm):
    ours, whole = minilm
    texts = [*TEXTS, *json.dumps((minilm_folder() / "README.md").read_text()).split(".")]
    for length in (None, 4, 13):
        found, expected = ours.tokenize(texts, length), whole.tokenize(texts, length)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.starts, expected.starts)
    assert reading(ours) == reading(whole)
    assert ours.filler == whole.filler
    assert ours.max_length == whole.max_length
    assert isinstance(ours.words, bert.Words)  # nothing of this has asked for another


def test_whoever_asks_gets_the_model_of_transformers_with_the_same_weights():
    encoder = Encoder.load(minilm_folder())
    weights = dict(encoder.named_parameters())
    with torch.no_grad():
        weights["backbone.model.embeddings.LayerNorm.bias"].add_(1.0)  # as a user may
    vectors = encoder.encode(TEXTS)
    assert isinstance(encoder.backbone.encoding, bert.Bert)
    assert type(encoder.backbone.model).__name__ == "BertModel"
    assert encoder.backbone.tokenizer.mask_token_id == 103
    assert not encoder.backbone.model.training
    again = dict(encoder.named_parameters())
    assert again.keys() == weights.keys()
    assert all(again[name] is weight for name, weight in weights.items())
    assert [name for name, one in again.items() if not one.requires_grad] == [
        "backbone.model.pooler.dense.weight",
        "backbone.model.pooler.dense.bias",
    ]
    np.testing.assert_allclose(encoder.encode(TEXTS), vectors, rtol=0, atol=1e-6)


def _fewer_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    path.unlink()
    save_file({name: one for name, one in weights.items() if "pooler" not in name}, path)


@pytest.mark.parametrize(
    "change",
    [
        changed("config.json", position_embedding_type="relative_key"),
        changed("config.json", num_hidden_layers=5),
        changed("tokenizer_config.json", do_lower_case="yes", never_split=["a"]),
        _fewer_weights,
    ],
)
def test_what_is_not_known_to_the_letter_is_left_to_transformers(tmp_path, change: Callable[[Path], None]):
    folder = copied(tmp_path)
    assert bert.read(folder, none_needed) is not None  # type: ignore[arg-type]
    change(folder)
    assert bert.read(folder, none_needed) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"attention": "eager"}, {"dtype": "bfloat16"}])
def test_another_attention_or_type_of_weights_is_left_to_transformers(given: dict[str, str]):
    config = BackboneConfig(name=str(minilm_folder()), **given)  # type: ignore[arg-type]
    found = pretrained.read_model(config, encodes_only=True)
    assert not isinstance(found.model, bert.Bert)


@pytest.fixture
def without(monkeypatch):
    """Nothing of these can be imported: what an encoding never needs."""
    for name in ("transformers", "sklearn", "scipy", "hydra", "yaml"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(torch.nn.init, "normal_", None)  # on the meta device it imports torch._dynamo


@pytest.mark.usefixtures("without")
def test_the_first_vector_needs_neither_transformers_nor_a_compiler(minilm, tmp_path):
    _, whole = minilm
    (tmp_path / "one.txt").write_text("A dog runs.\n")
    assert encode.main([str(minilm_folder()), str(tmp_path / "one.txt"), "-o", str(tmp_path / "v.npy")]) == 0
    alone = Encoder.load(minilm_folder()).encode("A dog runs.")  # (dim,)
    found = np.load(tmp_path / "v.npy")  # (1, dim)
    np.testing.assert_array_equal(found[0], alone)
    expected = Encoder(whole, Encoder.load(minilm_folder()).pooling, normalize=True).encode("A dog runs.")
    np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-6)
