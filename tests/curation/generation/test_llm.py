"""What a model is asked and answers; answers are kept."""

import json
import threading

import pytest

from embedrun.curation.generation.llm import SCORES, TEMPLATES, Answer, Responses, ask_all, prompt
from embedrun.errors import DataError


def flat(groups: list[list[str]]) -> list[str]:
    return [prompt for group in groups for prompt in group]


def echo(prompt: str) -> Answer:
    return Answer(f"re {prompt}")


@pytest.mark.parametrize("parallel", [1, 3])
def test_every_prompt_is_asked_once_and_a_second_time_nothing_is(tmp_path, scripted, parallel):
    llm, responses, counts = scripted(echo, parallel=parallel), Responses(tmp_path), []
    prompts = ["c", "a", "bb", "a"]
    ask_all(llm, prompts, responses, counts.append)
    assert sorted(flat(llm.asked)) == ["a", "bb", "c"]
    assert sum(counts) == 3
    assert responses.get(llm, "bb").text == "re bb"
    again = scripted(echo, parallel=parallel)
    ask_all(again, prompts, responses, counts.append)
    assert again.asked == []
    assert sum(counts) == 6


def test_groups_do_not_depend_on_what_is_stored(tmp_path, scripted):
    prompts = ["a", "bb", "ccc", "dddd", "e"]  # by length: a e | bb ccc | dddd
    whole = scripted(echo, together=2)
    ask_all(whole, prompts, Responses(tmp_path / "whole"), lambda count: None)
    assert whole.asked == [["a", "e"], ["bb", "ccc"], ["dddd"]]
    rest, responses = scripted(echo, together=2), Responses(tmp_path / "rest")
    for text in ("a", "e", "ccc"):
        responses.keep(rest, text, Answer("stored"))
    ask_all(rest, prompts[::-1], responses, lambda count: None)
    assert rest.asked == [["bb", "ccc"], ["dddd"]]
    assert responses.get(rest, "ccc").text == "stored"


@pytest.mark.parametrize("parallel", [1, 2])
def test_what_was_answered_before_a_failure_is_kept(tmp_path, scripted, parallel):
    def say(prompt: str) -> Answer:
        if prompt == "ccc":
            raise DataError("no more")
        return echo(prompt)

    llm, responses = scripted(say, parallel=parallel), Responses(tmp_path)
    with pytest.raises(DataError, match="no more"):
        ask_all(llm, ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"], responses, lambda count: None)
    assert responses.has(llm, "a")
    assert not responses.has(llm, "ccc")
    assert responses.has(llm, "dddd") is (["dddd"] in llm.asked)
    rest = scripted(echo, parallel=parallel)
    ask_all(rest, ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"], responses, lambda count: None)
    before = [prompt for prompt in flat(llm.asked) if prompt != "ccc"]
    assert sorted(before + flat(rest.asked)) == ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]


def test_a_failure_stops_what_waits(tmp_path, scripted):
    started, failed = threading.Event(), threading.Event()

    def say(prompt: str) -> Answer:
        if prompt == "a":
            assert started.wait(5)
            failed.set()
            raise KeyboardInterrupt
        started.set()
        assert failed.wait(5)
        return echo(prompt)

    llm = scripted(say, parallel=2)
    with pytest.raises(KeyboardInterrupt):
        ask_all(llm, ["a", "bb"], Responses(tmp_path), lambda count: None)
    assert llm.stopped == 1  # and what was under way has kept its answer
    assert Responses(tmp_path).has(llm, "bb")


def test_the_prompt_for_positives_is_the_papers_with_its_own_half_of_each_choice():
    assert prompt("positive", "A plane is taking off", 3) == (
        "You are a highly smart same-meaning sentence-generating system. Your job is to generate 3 "
        "synonymous sentences of a given input sentence. Input sentence: A plane is taking off. Output:"
    )


def test_the_prompt_for_negatives_is_the_papers_with_its_own_half_of_each_choice():
    assert prompt("negative", "A plane is taking off", 3) == (
        "You are a highly smart opposite-meaning sentence-generating system. Your job is to generate 3 "
        "antonym sentences of a given input sentence. Input sentence: A plane is taking off. Output:"
    )


def test_a_sentence_with_braces_is_put_in_as_it_is():
    assert "Input sentence: {size} of {text}. Output" in prompt("positive", "{size} of {text}", 1)


def test_positives_score_above_negatives():
    assert SCORES == {"positive": 1, "negative": 0}
    assert list(TEMPLATES) == list(SCORES)


@pytest.fixture
def llm(scripted):
    return scripted(lambda prompt: Answer(""))


@pytest.mark.parametrize("answer", [Answer("1. é"), Answer("x", cut=True), Answer("", refused="filter")])
def test_an_answer_comes_back_as_it_was_kept(tmp_path, llm, answer):
    responses = Responses(tmp_path / "responses")
    assert not responses.has(llm, "p")
    responses.keep(llm, "p", answer)
    assert responses.has(llm, "p")
    assert Responses(tmp_path / "responses").get(llm, "p") == answer


def test_the_first_answer_stays(tmp_path, llm):
    responses = Responses(tmp_path)
    responses.keep(llm, "p", Answer("first"))
    responses.keep(llm, "p", Answer("second"))
    assert responses.get(llm, "p").text == "first"
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_another_prompt_model_or_option_is_another_request(tmp_path, scripted, llm):
    responses = Responses(tmp_path)
    other, warm = scripted(lambda prompt: Answer(""), label="other"), scripted(lambda prompt: Answer(""))
    warm.settings = {**llm.settings, "temperature": 0.5}
    places = {responses.path(llm, "p"), responses.path(llm, "q"), responses.path(other, "p")}
    assert len(places | {responses.path(warm, "p")}) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"text": 1, "cut": false, "refused": null}'])
def test_a_damaged_answer_is_refused_with_what_to_do(tmp_path, llm, content):
    responses = Responses(tmp_path)
    responses.keep(llm, "p", Answer("first"))
    responses.path(llm, "p").write_bytes(content)
    with pytest.raises(DataError, match="delete it, and the same command asks again"):
        responses.get(llm, "p")


def test_a_file_says_what_it_answers(tmp_path, llm):
    responses = Responses(tmp_path)
    responses.keep(llm, "p", Answer("first"))
    found = json.loads(responses.path(llm, "p").read_text())
    assert found == {"llm": llm.settings, "prompt": "p", "text": "first", "cut": False, "refused": None}


@pytest.mark.parametrize("refused", [5, ["a"], False])
def test_a_reason_that_is_no_text_is_a_damaged_answer(tmp_path, llm, refused):
    responses = Responses(tmp_path)
    responses.keep(llm, "p", Answer("a"))
    path = responses.path(llm, "p")
    path.write_text(json.dumps({**json.loads(path.read_text()), "refused": refused}))
    with pytest.raises(DataError, match="not a readable answer"):
        responses.get(llm, "p")


def test_an_answer_that_nests_too_deeply_is_damaged(tmp_path, llm):
    responses = Responses(tmp_path)
    responses.keep(llm, "p", Answer("a"))
    responses.path(llm, "p").write_text("[" * 100_000)
    with pytest.raises(DataError, match="not a readable answer"):
        responses.get(llm, "p")
