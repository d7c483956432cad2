import json
from pathlib import Path

import numpy as np
import pytest
import torch

from embedrun import Encoder
from embedrun.prompts import Prompt
from embedrun.training.feed import Feed

PROMPT = 'say "{text}" again'


def test_faulty_templates_are_all_refused_before_anything_begins(refused, options):
    said = refused(
        "train",
        *options,
        "backbone.prompt='query:'",
        "evaluation.prompt='{text} {text}'",
        "prompts.query='q'",
        "+dataset.roles={text1: query, textt2: document, text2: passage}",
        "evaluation.text_edit=angle_lm",
    )
    assert "backbone.prompt: expected a template with {text} once" in said
    assert "evaluation.prompt: expected a template with {text} once" in said
    assert "prompts.query: expected a template with {text} once" in said
    assert (
        "dataset.roles.textt2: the rows have no such text; did you mean 'text2'? (they have: text1, text2)"
        in said
    )
    assert "dataset.roles.text2: expected one of query, document, got 'passage'" in said
    assert "evaluation.text_edit: expected one of none, angle_llm or null, got 'angle_lm'" in said
    unread = refused("train", *options, "prompts=e5")
    assert "give 'dataset.roles={text1: query, text2: document}'" in unread


@pytest.fixture
def fed(monkeypatch):
    """The prompts that feeds were made with."""
    seen, make = [], Feed.__init__

    def watched(self, *arguments, **named):
        seen.append(named["prompts"])
        make(self, *arguments, **named)

    monkeypatch.setattr(Feed, "__init__", watched)
    return seen


def test_a_run_trains_with_the_prompt_scores_with_prompt_and_edit_and_saves_both(embedrun, options, fed):
    given = (f"backbone.prompt='{PROMPT}'", "evaluation.text_edit=angle_llm")
    ended = embedrun("train", *options, *given, "hydra.run.dir=run")
    assert ended.code == 0, ended.err
    assert fed == [{"left": Prompt(PROMPT), "right": Prompt(PROMPT)}]
    own = json.loads(Path("run/model/embedrun.json").read_text())
    assert (own["prompt"], own["text_edit"]) == (PROMPT, "angle_llm")
    # The scores of the run are those of its folder, and others without the prompt.
    scores = json.loads(Path("run/results.json").read_text())["scores"]
    for number, (said, same) in enumerate([((), True), (("evaluation.prompt='{text}'",), False)]):
        again = embedrun(
            "evaluate",
            "model=run",
            "evaluation=heldout",
            *options[1:4],
            "dataset=toy",
            *said,
            f"hydra.run.dir=e{number}",
        )
        assert again.code == 0, again.err
        found = json.loads(Path(f"e{number}/results.json").read_text())["scores"]["toy_test/spearman"]
        assert (abs(found - scores["toy_test/spearman"]) < 1e-9) is same
    # Going on with it trains with its prompt and without the edit.
    ended = embedrun("train", *options, "backbone.scratch=null", "backbone.name=run", "hydra.run.dir=more")
    assert ended.code == 0, ended.err
    assert fed[-1] == {"left": Prompt(PROMPT), "right": Prompt(PROMPT)}


def test_queries_and_documents_have_prompts_in_training_scores_and_the_saved_model(embedrun, options, fed):
    from sentence_transformers import SentenceTransformer

    given = ("prompts=e5", "+dataset.roles={text1: query, text2: document}")
    ended = embedrun("train", *options, *given, "hydra.run.dir=run")
    assert ended.code == 0, ended.err
    assert fed == [{"left": Prompt("query: {text}"), "right": Prompt("passage: {text}")}]
    encoder = Encoder.load("run")
    query, document, plain = (encoder.encode(["who runs"], role=role) for role in ("query", "document", None))
    assert not np.allclose(query, plain, atol=1e-3)
    encoder.use(None, {})
    for vectors, text in ((query, "query: who runs"), (document, "passage: who runs"), (plain, "who runs")):
        np.testing.assert_allclose(vectors, encoder.encode([text]), rtol=0, atol=1e-6)
    # The scores of the run are those of the pairs as queries and documents.
    scores = json.loads(Path("run/results.json").read_text())["scores"]
    again = ("evaluate", "model=run", "evaluation=heldout", *options[1:4], "dataset=toy")
    roles = "+dataset.roles={text1: query, text2: document}"
    for number, (words, same) in enumerate([((roles,), True), ((roles, "prompts=none"), False)]):
        assert embedrun(*again, *words, f"hydra.run.dir=again{number}").code == 0
        score = json.loads(Path(f"again{number}/results.json").read_text())["scores"]["toy_test/spearman"]
        assert (abs(score - scores["toy_test/spearman"]) < 1e-6) == same
    theirs = SentenceTransformer("run/model", device="cpu")
    np.testing.assert_allclose(query, theirs.encode(["who runs"], prompt_name="query"), rtol=0, atol=1e-6)
    np.testing.assert_allclose(query, theirs.encode_query(["who runs"]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(document, theirs.encode_document(["who runs"]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(plain, theirs.encode(["who runs"]), rtol=0, atol=1e-6)
    Path("t.txt").write_text("who runs\n")
    assert embedrun("encode", "run", "t.txt", "--as", "query", "-o", "v.npy").code == 0
    np.testing.assert_allclose(np.load("v.npy"), query, rtol=0, atol=1e-6)


def test_a_model_without_prompts_by_role_encodes_no_queries(embedrun, options):
    assert embedrun("train", *options, "hydra.run.dir=run").code == 0
    Path("t.txt").write_text("who runs\n")
    ended = embedrun("encode", "run", "t.txt", "--as", "query", "-o", "v.npy")
    assert (ended.code, "has no prompts by role; give --prompt" in ended.err) == (2, True)


def test_tokens_of_the_prompt_are_left_out_of_the_mean_as_sentence_transformers_does(embedrun, options):
    from sentence_transformers import SentenceTransformer

    given = ("prompts=e5", "+dataset.roles={text1: query, text2: document}", "+pooling.skip_prompt=true")
    assert embedrun("train", *options, *given, "hydra.run.dir=run").code == 0
    encoder, theirs = Encoder.load("run"), SentenceTransformer("run/model", device="cpu")
    texts = ["who runs", "a dog runs over the hill", ""]
    for role in ("query", "document"):
        expected = theirs.encode(texts, prompt_name=role)
        np.testing.assert_allclose(encoder.encode(texts, role=role), expected, rtol=0, atol=1e-6)
    # By hand: the mean over the tokens behind `[CLS] query :`.
    words = encoder.backbone.tokenizer
    ids = words("query: who runs")["input_ids"]
    first = len(words("query: ")["input_ids"]) - 1
    states = encoder.backbone.model(torch.tensor([ids])).last_hidden_state[0, first:].mean(dim=0)
    np.testing.assert_allclose(encoder.encode("who runs", role="query"), states.detach(), rtol=0, atol=1e-6)
