"""What a model is asked and answers; answers are kept."""

import json

import pytest

from embedrun.curation.llm import Answer, Responses, ask_all, prompt
from embedrun.errors import DataError


def flat(groups: list[list[str]]) -> list[str]:
    return [prompt for group in groups for prompt in group]


def echo(prompt: str) -> Answer:
    return Answer(f"re {prompt}")


@pytest.mark.parametrize("parallel", [1, 3])
def test_every_prompt_is_asked_once_and_a_second_time_nothing_is(tmp_path, scripted, parallel):
    llm, responses, counts = scripted(echo, parallel=parallel), Responses(tmp_path, "a"), []
    prompts = ["c", "a", "bb", "a"]
    counts.extend(ask_all(llm, prompts, responses))
    assert sorted(flat(llm.asked)) == ["a", "bb", "c"]
    assert sum(counts) == 3
    assert responses.get(llm, "bb") == Answer("re bb")
    again = scripted(echo, parallel=parallel)
    counts.extend(ask_all(again, prompts, responses))
    assert again.asked == []
    assert sum(counts) == 6


@pytest.mark.parametrize("parallel", [1, 2])
def test_what_was_answered_before_a_failure_is_kept(tmp_path, scripted, parallel):
    def say(prompt: str) -> Answer:
        if prompt == "ccc":
            raise DataError("no more")
        return echo(prompt)

    llm, responses = scripted(say, parallel=parallel), Responses(tmp_path, "a")
    with pytest.raises(DataError, match="no more"):
        list(ask_all(llm, ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"], responses))
    assert responses.get(llm, "a")
    assert responses.get(llm, "ccc") is None
    assert (responses.get(llm, "dddd") is not None) == (["dddd"] in llm.asked)
    rest = scripted(echo, parallel=parallel)
    list(ask_all(rest, ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"], responses))
    before = [prompt for prompt in flat(llm.asked) if prompt != "ccc"]
    assert sorted(before + flat(rest.asked)) == ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]


def test_the_prompt_for_positives_is_the_papers_with_its_own_half_of_each_choice():
    assert prompt("positive", "A plane is taking off", 3) == (
        "You are a highly smart same-meaning sentence-generating system. Your job is to generate 3 "
        "synonymous sentences of a given input sentence. Input sentence: A plane is taking off. Output:"
    )


@pytest.fixture
def llm(scripted):
    return scripted(lambda prompt: Answer(""))


@pytest.mark.parametrize("answer", [Answer("é\n"), Answer("x", cut=True), Answer("", refused="filter")])
def test_an_answer_comes_back_as_it_was_kept(tmp_path, llm, answer):
    responses = Responses(tmp_path / "responses", "a")
    assert responses.get(llm, "p") is None
    responses.keep(llm, "p", answer)
    responses.keep(llm, "p", Answer("second"))
    assert Responses(tmp_path / "responses", "b").get(llm, "p") == answer
    first, _ = (tmp_path / "responses/a.jsonl").read_text().splitlines()
    assert json.loads(first)["prompt"] == "p"


def test_half_a_line_of_a_kill_is_passed_over_and_what_follows_is_whole(tmp_path, llm):
    Responses(tmp_path, "a").keep(llm, "p", Answer("first"))
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b'\n{"llm": {"kind": "scr\xc3')
    again = Responses(tmp_path, "a")
    again.keep(llm, "q", Answer("second"))
    other = Responses(tmp_path, "b")
    assert [other.get(llm, "p"), other.get(llm, "q")] == [Answer("first"), Answer("second")]
    again.keep(llm, "r", Answer("third"))
    assert other.get(llm, "r") is None
    other.reload()
    assert other.get(llm, "r") == Answer("third")


def test_another_prompt_model_or_option_is_another_request(tmp_path, scripted, llm):
    responses = Responses(tmp_path, "a")
    responses.keep(llm, "p", Answer("first"))
    other, warm = scripted(lambda prompt: Answer(""), label="other"), scripted(lambda prompt: Answer(""))
    warm.settings = {**llm.settings, "temperature": 0.5}
    assert [responses.get(llm, "q"), responses.get(other, "p"), responses.get(warm, "p")] == [None] * 3
