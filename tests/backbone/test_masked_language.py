"""Masked-language modelling: transformers' own model has the same loss and gradient on the same masks."""

from pathlib import Path

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    ModernBertConfig,
    ModernBertForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

from embedrun.backbone import load
from embedrun.backbone.masked_language import head_of, hiding
from embedrun.backbone.scratch import make
from embedrun.batch import VISIBLE, Tokens
from embedrun.config import BackboneConfig, ScratchConfig
from embedrun.errors import ConfigError
from embedrun.loss.mlm import Mlm

TEXTS = ["a man plays the guitar", "a dog runs", "the sea is calm and the boat is far away tonight"]
SIZES = {
    "vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 40, "pad_token_id": 0,
}  # fmt: skip
KINDS = {
    "bert": (BertForMaskedLM, BertConfig, {}),
    "roberta": (RobertaForMaskedLM, RobertaConfig, {}),
    "modernbert": (ModernBertForMaskedLM, ModernBertConfig, {"cls_token_id": 2, "sep_token_id": 3}),
}
SHAPE = ScratchConfig(vocabulary=60, layers=1, width=16, heads=2, positions=40)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make(SHAPE, TEXTS, attention="sdpa")[1].save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradient_are_those_of_transformers(kind: str, folder: Path):
    cls, of_kind, more = KINDS[kind]
    torch.manual_seed(0)
    whole = cls(of_kind(**SIZES, **more)).eval()
    whole.save_pretrained(folder)
    backbone = load(BackboneConfig(name=str(folder)), seed=0).eval()
    head = head_of(backbone, seed=0).eval()
    table = backbone.tokenize(TEXTS)
    tokens = table.take(torch.tensor([2, 0, 1]).numpy())  # of different lengths
    ids, pieces = hiding(backbone.tokenizer)(tokens.ids, 0.4, 7)
    there = pieces != VISIBLE
    assert 3 < int(there.sum()) < len(ids)
    states = backbone.token_states(Tokens(ids, tokens.lengths), there)
    loss = Mlm(masked=0.4, head=head)(states, pieces[there])
    loss.backward()

    texts, words = (torch.nn.utils.rnn.pad_sequence(part.split(tokens.lengths.tolist()), batch_first=True)
                    for part in (ids, pieces + 1))  # fmt: skip
    mask = torch.arange(texts.shape[1]) < tokens.lengths[:, None]
    wanted = whole(
        input_ids=texts, attention_mask=mask.long(), labels=(words - 1).masked_fill(~mask, VISIBLE)
    )
    wanted.loss.backward()
    assert loss.item() == pytest.approx(wanted.loss.item(), rel=1e-5)
    ours = dict(backbone.model.named_parameters()) | {
        name: weight for name, weight in head.model.named_parameters(remove_duplicate=False)
    }
    for name, weight in whole.named_parameters():
        found = ours[name.removeprefix(f"{whole.base_model_prefix}.")]
        assert torch.allclose(found.grad, weight.grad, atol=1e-6), name
    assert head.model.get_output_embeddings().weight is backbone.model.get_input_embeddings().weight


def test_word_pieces_are_hidden_as_transformers_collator_does(folder: Path):
    tokenizer = make(SHAPE, TEXTS, attention="sdpa")[1]
    ids = torch.tensor(tokenizer(" ".join(TEXTS * 200))["input_ids"])
    hidden, pieces = hiding(tokenizer)(ids, 0.15, 3)
    again = hiding(tokenizer)(ids, 0.15, 3)
    assert torch.equal(hidden, again[0])
    assert torch.equal(pieces, again[1])
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, seed=3)
    batch = collator([{"input_ids": ids.tolist()}])
    assert torch.equal(batch["input_ids"][0], hidden)
    assert torch.equal(batch["labels"][0], pieces)
    assert not (torch.isin(ids, torch.tensor(tokenizer.all_special_ids)) & (pieces != VISIBLE)).any()


def test_files_without_a_head_get_a_new_one_and_say_so(folder: Path, capsys):
    make(SHAPE, TEXTS, attention="sdpa")[0].save_pretrained(folder)  # a BertModel
    heads = [head_of(load(BackboneConfig(name=str(folder)), seed=0), seed=4) for _ in range(2)]
    first, second = (head.model.cls.predictions.transform.dense.weight for head in heads)
    assert torch.equal(first, second)
    assert "no masked-language head" in capsys.readouterr().err


@pytest.mark.parametrize("architecture", ["bert", "ran"])
def test_a_model_from_scratch_has_a_head(architecture: str):
    shape = ScratchConfig(architecture=architecture, vocabulary=60, layers=1, width=16, heads=2, positions=40)
    backbone = load(BackboneConfig(name=None, scratch=shape), TEXTS, seed=0)
    scores = head_of(backbone, seed=0)(torch.zeros(5, 16))
    assert scores.shape == (5, backbone.model.config.vocab_size)


def test_a_decoder_has_no_mask_token():
    class Decoder:
        mask_token = None

    with pytest.raises(ConfigError, match="no mask token"):
        hiding(Decoder())
