import json

import pytest

from embedrun.curation.generation.llm import Answer, Responses
from embedrun.errors import DataError


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
