import json
from pathlib import Path

import numpy as np
import pytest

from embedrun import Encoder
from embedrun.prompt import Prompt
from embedrun.training.feed import Feed

PROMPT = 'say "{text}" again'


def test_faulty_templates_are_all_refused_before_anything_begins(refused, options):
    said = refused(
        "train",
        *options,
        "backbone.prompt='query:'",
        "evaluation.prompt='{text} {text}'",
        "dataset.prompts={left: 'a {text}', rigth: null, right: 'b'}",
        "evaluation.text_edit=angle_lm",
    )
    assert "backbone.prompt: expected a template with {text} once" in said
    assert "evaluation.prompt: expected a template with {text} once" in said
    assert (
        "dataset.prompts.rigth: the rows have no such view; did you mean 'right'? (they have: left, right)"
        in said
    )
    assert "dataset.prompts.right: expected a template with {text} once" in said
    assert "evaluation.text_edit: expected one of none, angle_llm or null, got 'angle_lm'" in said
    assert "dataset.prompts.left" not in said


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


def test_each_side_of_the_rows_may_have_a_prompt_of_its_own(embedrun, options, fed):
    own = "dataset.prompts={left: 'who {text}', right: '{text}'}"
    in_use = "evaluation.prompt='in use {text}'"
    ended = embedrun("train", *options, f"backbone.prompt='{PROMPT}'", in_use, own, "hydra.run.dir=run")
    assert ended.code == 0, ended.err
    assert fed == [{"left": Prompt("who {text}"), "right": None}]
    encoder = Encoder.load("run")
    assert encoder.prompt == Prompt("in use {text}")
    prompted = encoder.encode(["who"])
    encoder.use(None)
    np.testing.assert_allclose(prompted, encoder.encode(["in use who"]), rtol=0, atol=1e-7)
