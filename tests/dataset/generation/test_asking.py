import threading

import pytest

from embedrun.curation.generation.llm import Answer, Responses, ask_all
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
    for prompt in ("a", "e", "ccc"):
        responses.keep(rest, prompt, Answer("stored"))
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
