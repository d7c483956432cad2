import os
from pathlib import Path

import pytest
from small_models import FAMILIES, put
from transformers import AutoTokenizer

from embedrun.backbone.transformer import token_ids
from embedrun.errors import ConfigError

BEFORE, AFTER = 'Summarize sentence "', '" in one word:"'
TEXTS = [
    "the dogs were running",
    "",
    'the cat sits."',  # a full stop and a quotation mark may be one token with the one behind them
    "  two  spaces ",
    "Ünïcödé 漢字 😀 nobody's",
    "a little dog ran fast over the hill and was happy to see the big red ball again " * 5,
]
MODELS = os.environ.get("EMBEDRUN_MODELS")  # folder with stories260K-llama, a LLaMA of 260 thousand weights


@pytest.fixture(scope="module", params=[*FAMILIES, "stories260K-llama"])
def tokenizer(request, tmp_path_factory):
    if request.param in FAMILIES:
        return AutoTokenizer.from_pretrained(put(tmp_path_factory.mktemp("model"), request.param))
    if MODELS is None:
        pytest.skip("EMBEDRUN_MODELS is not set")
    return AutoTokenizer.from_pretrained(Path(MODELS) / request.param)


def plain(tokenizer, text):
    return tokenizer(BEFORE + text + AFTER, verbose=False)["input_ids"]


def test_what_fits_is_the_plain_tokenisation_of_the_filled_template(tokenizer):
    found = token_ids(tokenizer, TEXTS, BEFORE, AFTER, max_length=2000)
    assert found == [plain(tokenizer, text) for text in TEXTS]


@pytest.mark.parametrize("room", [1, 2, 5, 6, 7, 11, 30])
def test_what_is_cut_is_the_plain_tokenisation_of_a_shorter_text(tokenizer, room):
    length = len(plain(tokenizer, "")) + room
    for text, ids in zip(TEXTS, token_ids(tokenizer, TEXTS, BEFORE, AFTER, max_length=length), strict=True):
        if len(plain(tokenizer, text)) <= length:
            assert ids == plain(tokenizer, text)
            continue
        assert len(ids) <= length
        # The only freedom is how much of the text is left: the template and special tokens are whole.
        shorter = [plain(tokenizer, text[:end]) for end in range(len(text))]
        assert ids in shorter
        # At the seam a token may need up to three more, and a sign of several bytes is left out whole.
        assert len(ids) >= length - 4


def test_the_longest_text_that_fits_is_kept(tokenizer):
    text = " ".join(["dog"] * 200)
    length = len(plain(tokenizer, "dog dog dog dog"))
    (ids,) = token_ids(tokenizer, [text], BEFORE, AFTER, max_length=length)
    assert ids == plain(tokenizer, "dog dog dog dog")


def test_without_words_behind_it_a_long_text_is_cut_as_the_tokenizer_does(tokenizer):
    whole = tokenizer("query: " + TEXTS[-1], truncation=True, max_length=20)["input_ids"]
    assert token_ids(tokenizer, TEXTS[-1:], "query: ", "", max_length=20) == [whole]


def test_a_prompt_that_leaves_no_room_for_a_text_is_refused(tokenizer):
    own = len(plain(tokenizer, ""))
    with pytest.raises(ConfigError, match=rf"backbone\.prompt: takes {own} tokens by itself.* cut to {own}"):
        token_ids(tokenizer, ["a dog"], BEFORE, AFTER, max_length=own)


def test_a_tokenizer_that_cuts_on_the_left_leaves_the_prompt_whole_too(tokenizer):
    tokenizer.truncation_side = "left"
    try:
        (ids,) = token_ids(tokenizer, TEXTS[-1:], "query: ", "", max_length=20)
    finally:
        tokenizer.truncation_side = "right"
    assert ids in [tokenizer("query: " + TEXTS[-1][:end])["input_ids"] for end in range(120)]
