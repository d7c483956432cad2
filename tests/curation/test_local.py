from pathlib import Path

import pytest

from embedrun.config.options import LlmConfig
from embedrun.curation.local import LocalLlm

WORDS = ["<pad>", "</s>", "1.", "2.", "cat", "dog", "sits", "runs", "\n"]


def put(
    folder: Path, *, positions: int = 64, template: str | None = None, ends: list[int] | None = None
) -> Path:
    """A Llama of random weights with a vocabulary of nine words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="dog"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="</s>")
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=positions,
        eos_token_id=ends or [1],
        pad_token_id=0,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put(tmp_path_factory.mktemp("llama"))


def llm(folder: Path, **options) -> LocalLlm:
    config = LlmConfig(**{"kind": "local", "name": "tiny", "max_new_tokens": 12, **options})
    return LocalLlm(config, folder, device="cpu", precision="fp32")


PROMPTS = ["cat sits", "dog runs runs", "1. cat 2. dog"]


def test_padding_does_not_change_an_answer(folder):
    together, alone = llm(folder), llm(folder)
    assert together.ask(PROMPTS) == [answer for prompt in PROMPTS for answer in alone.ask([prompt])]


def test_sampling_follows_the_seed_and_leaves_the_global_random_state(folder):
    import torch

    state = torch.random.get_rng_state()
    one = llm(folder, temperature=1.0, seed=1).ask(PROMPTS)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert llm(folder, temperature=1.0, seed=1).ask(PROMPTS) == one
    assert llm(folder, temperature=1.0, seed=2).ask(PROMPTS) != one


def test_an_answer_ends_at_an_end_token_and_is_cut_off_without_one(tmp_path):
    # Every token ends a text, so each answer is empty and whole; then none of the words does.
    ended = llm(put(tmp_path / "a", ends=list(range(len(WORDS))))).ask(["cat"])
    assert [(answer.text, answer.cut) for answer in ended] == [("", False)]
    endless = llm(put(tmp_path / "b", ends=[0])).ask(["cat"])
    assert endless[0].cut
    assert 0 < len(endless[0].text.split()) <= 12


def test_a_prompt_longer_than_the_model_is_refused_and_the_others_are_answered(tmp_path):
    answers = llm(put(tmp_path / "a", positions=8)).ask(["cat", " ".join(["cat"] * 9), "dog dog"])
    assert [answer.refused for answer in answers] == [
        None,
        "the prompt has 9 tokens, and the model takes 8",
        None,
    ]


def test_the_chat_template_wraps_the_prompt(tmp_path):
    template = "cat {{ messages[0]['content'] }}{% if add_generation_prompt %} runs{% endif %}"
    plain, chat = put(tmp_path / "a"), put(tmp_path / "b", template=template)
    assert llm(chat).ask(["dog"]) == llm(plain).ask(["cat dog runs"])
