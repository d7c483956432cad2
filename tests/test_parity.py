"""Vectors are those of a plain computation with transformers, which is written out here."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from minilm import minilm_folder
from small_models import FAMILIES, put
from transformers import AutoModel, AutoTokenizer

from embedrun.encoder import Encoder
from embedrun.pooling import FIRST_LAST, HEAD, LEGACY, POOLER, POOLINGS, Pooling, new_head
from embedrun.prompts import Prompt

TEXTS = [
    "the dogs were running, playing and barking all day",
    "a cat",
    "who runs?",
    "a little dog ran fast over the hill",
    'nobody\'s "cat" liked that',
    "red",
    "the red ball",
    "it said",
    "a little dog",
]
PROMPTS = [None, Prompt('Sentence "{text}" in a word:"', "angle_llm")]
WIDE = 70  # tokens that the legacy poolings pad every text to; more than any has
REAL = (pytest.param("minilm", marks=pytest.mark.slow), "stories260K-llama")
TOLERANCE = 1e-6


@pytest.fixture(scope="module", params=[*FAMILIES, *REAL])
def folder(request, tmp_path_factory) -> Path:
    if request.param in FAMILIES:
        return put(tmp_path_factory.mktemp(request.param), request.param)
    if request.param == "minilm":
        return minilm_folder()
    if "EMBEDRUN_MODELS" not in os.environ:
        pytest.skip("EMBEDRUN_MODELS is not set")
    return Path(os.environ["EMBEDRUN_MODELS"]) / request.param


def poolings(model) -> list[Pooling]:
    """Every pooling that the model can have."""
    found = []
    for name in POOLINGS:
        if name == POOLER and not hasattr(getattr(model, "pooler", None), "dense"):
            continue
        if name == FIRST_LAST:
            found += [Pooling(name, first_layer=0), Pooling(name, first_layer=1)]
        elif name not in LEGACY:
            found.append(Pooling(name))
    return found


def token_vectors(model, tokenizer, texts, *, side, width=None):
    """Every layer's vectors and the mask, as transformers gives them for padded texts."""
    inputs = tokenizer(
        texts,
        padding="max_length" if width else True,
        max_length=width,
        padding_side=side,
        return_tensors="pt",
        return_token_type_ids=False,
    )
    mask = inputs["attention_mask"]
    if side == "left" and model.config.model_type != "roberta":  # which finds out by itself
        inputs["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True)
    return [*output.hidden_states[:-1], output.last_hidden_state], mask


def pooled(pooling, layers, mask, model, head):
    """One vector a text, text by text and without any function of embedrun."""
    found = []
    for row in range(len(mask)):
        real = mask[row].bool()
        first, last = (layers[place][row][real] for place in (pooling.first_layer or 0, -1))  # (tokens, dim)
        found.append(
            {
                "cls": lambda last=last: last[0],
                "pooler": lambda last=last: torch.tanh(model.pooler.dense(last[0])),
                "cls_mlp": lambda last=last: torch.tanh(head(last[0])),
                "mean": lambda last=last: last.mean(0),
                "max": lambda last=last: last.max(0).values,
                "last_token": lambda last=last: last[-1],
                "weighted_mean": lambda last=last: (
                    torch.stack([(place + 1) * vector for place, vector in enumerate(last)]).sum(0)
                    / (len(last) * (len(last) + 1) / 2)
                ),
                "cls_last_mean": lambda last=last: (last[0] + last.mean(0)) / 2,
                "cls_max": lambda last=last: (last[0] + last.max(0).values) / 2,
                "first_last_mean": lambda first=first, last=last: (first.mean(0) + last.mean(0)) / 2,
            }[pooling.name]()
        )
    return torch.stack(found).detach().numpy()


def close(found, expected, folder):
    if folder.name in ("model", REAL[1]):
        # Their vectors are 6 to 25 long, so that what float32 rounds off is more than that.
        found, expected = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("prompt", PROMPTS, ids=["no prompt", "prompt"])
def test_every_pooling_padding_and_batch_gives_the_vectors_of_transformers(folder, prompt):
    loaded = Encoder.load(folder)
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    head = new_head(model, seed=5)
    read = TEXTS if prompt is None else [prompt.filled(text) for text in TEXTS]
    encoders = [
        Encoder(
            loaded.backbone,
            pooling,
            head=head if pooling.name == HEAD else None,
            keep_head=True,
            prompt=prompt,
        )
        for pooling in poolings(model)
    ]
    for size in (1, 7):
        parts = [slice(start, start + size) for start in range(0, len(TEXTS), size)]
        ours = [np.concatenate([encoder.encode(TEXTS[part]) for part in parts]) for encoder in encoders]
        for side in ("right", "left"):
            layers = [token_vectors(model, tokenizer, read[part], side=side) for part in parts]
            for encoder, found in zip(encoders, ours, strict=True):
                plain = [pooled(encoder.pooling, *own, model, head) for own in layers]
                close(found, np.concatenate(plain), folder)


def test_the_poolings_that_average_over_padding_pad_every_text_alike_on_the_right(folder):
    for prompt in PROMPTS:
        for name in LEGACY:
            loaded = Encoder.load(folder)
            width = min(WIDE, loaded.backbone.max_length)
            encoder = Encoder(loaded.backbone, Pooling(name, padded_to=width), prompt=prompt)
            model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
            read = TEXTS if prompt is None else [prompt.filled(text) for text in TEXTS]
            (*_, last), _ = token_vectors(model, tokenizer, read, side="right", width=width)
            share = 0.5 if name.startswith("cls") else 0.0
            plain = (share * last[:, 0] + (1 - share) * last.mean(1)).numpy()  # (texts, dim)
            close(encoder.encode(TEXTS), plain, folder)
