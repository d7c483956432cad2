import gzip
import importlib.util
import json
import os
import time
from pathlib import Path

import pytest
from chat_server import ChatServer, Reply, serving

from embedrun.commands.generate import main
from embedrun.curation import generate as generation
from embedrun.curation.generate import run
from embedrun.curation.llm import Responses
from embedrun.errors import ConfigError, DataError

KEY = "sk-canary-0123456789"
SENTENCES = [f"sentence {number} stands here" for number in range(12)]


def said(prompt: str) -> str:
    """Two sentences about the prompt's own, in one of four formats, or garbage."""
    text = prompt.partition("Input sentence: ")[2].removesuffix(". Output:")
    same = "synonymous" in prompt
    items = [f"{text} {'too' if same else 'not'}", f"{'indeed' if same else 'never'} {text}"]
    number = int(text.split()[1])
    if number == 11:
        return "I cannot do that."
    return [
        f"1. {items[0]}\n2. {items[1]}",
        f"Sure:\n\n- {items[0]}\n- {items[1]}",
        json.dumps({"sentences": items}),
        f"```json\n{json.dumps(items, indent=1)}\n```",
    ][number % 4]


def calm(prompt: str, tries: int) -> Reply:
    return Reply(said(prompt))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Blocks of five sentences, no waiting, and no proxy in between."""
    monkeypatch.setattr(generation, "BLOCK", 5)
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the openai package waits with this between two tries
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("LLM_KEY", KEY)
    monkeypatch.setenv("EMBEDRUN_QUIET", "1")
    Path("in.txt").write_text("\n".join([*SENTENCES, SENTENCES[0]]) + "\n")


def llm(chat: ChatServer, name: str = "m", **options: object) -> dict:
    return {"kind": "http", "url": chat.url, "model": name, "key_variable": "LLM_KEY", **options}


def generate(*llms: dict, output: str = "out", **options: object) -> None:
    """What the command does with a composed configuration."""
    gpu = {"device": "cpu", "precision": "auto", "threads": 1}
    given = {"input": "in.txt", "size": 2, "gpu": gpu, **options}
    run({"output": output, "llms": list(llms), **given}, [], None)


def made(output: str = "out") -> dict[str, bytes]:
    """The files that a person uses."""
    names = ("pairs.jsonl.gz", "rejects.jsonl", "provenance.json")
    return {name: (Path(output) / name).read_bytes() for name in names if (Path(output) / name).is_file()}


def rows(output: str = "out") -> list[dict]:
    text = gzip.decompress((Path(output) / "pairs.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def rejects(output: str = "out") -> list[dict]:
    return [json.loads(line) for line in (Path(output) / "rejects.jsonl").read_text().splitlines()]


def test_four_formats_lose_and_double_nothing(capsys):
    with serving(calm) as chat:
        generate(llm(chat, parallel=8))
    assert len(chat.asked) == 24  # 12 different sentences, each for positives and for negatives
    assert set(chat.answered.values()) == {1}
    expected = [
        {"text1": text, "text2": other, "score": score, "llm": "m"}
        for text in SENTENCES[:-1]
        for score, others in ((1, (f"{text} too", f"indeed {text}")), (0, (f"{text} not", f"never {text}")))
        for other in others
    ]
    assert rows() == expected
    kept = rejects()
    assert sum(row["text"] == "Sure:" for row in kept) == 6
    assert [row["kind"] for row in kept if row["text"] == "I cannot do that."] == ["positive", "negative"]
    assert len(kept) == 8
    printed = capsys.readouterr().out
    assert "positive pairs" in printed
    assert printed.endswith("out\n")


def test_one_command_line_does_it(capsys):
    with serving(calm) as chat:
        one = f'{{kind: http, url: "{chat.url}", model: m, key_variable: LLM_KEY}}'
        assert main(["input=in.txt", "output=out", "size=2", "gpu=cpu", "limit=2", f"llms=[{one}]"]) == 0
    assert len(rows()) == 8
    assert capsys.readouterr().err == ""


def test_a_killed_generation_asks_for_no_stored_answer_again(monkeypatch):
    with serving(calm) as chat:
        generate(llm(chat), output="whole")
        whole, asked = made("whole"), chat.answered.copy()
        keep, count = Responses.keep, iter(range(1000))

        def killed(*arguments) -> None:
            if next(count) == 7:
                raise KeyboardInterrupt
            keep(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Responses, "keep", killed)
            with pytest.raises(KeyboardInterrupt):
                generate(llm(chat, parallel=1))
        assert made() == {}
        with Path("out/responses/0-of-1.jsonl").open("ab") as file:
            file.write(b'\n{"llm": {"kind')  # what a kill may leave
        generate(llm(chat))
    assert made() == whole
    # The one answer that came and could not be kept is asked for again, and no other.
    again = chat.answered - asked - asked
    assert sum(again.values()) == 1


def test_stored_answers_serve_another_filter():
    with serving(calm) as chat:
        generate(llm(chat), output="a")
        asked = len(chat.bodies)
        generate(llm(chat), output="b", responses="a/responses", filter_small_differences=1)
        assert len(chat.bodies) == asked
    # Every negative has all words of its sentence, so that none is missing.
    assert [row["score"] for row in rows("b")] == [1] * 22
    assert sum("fewer than 1 words" in row["reason"] for row in rejects("b")) == 22
    assert not Path("b/responses").exists()


@pytest.mark.parametrize("fail", [False, True])
def test_the_key_is_sent_and_stands_in_no_file_and_no_message(capsys, fail):
    def repeating(prompt: str, tries: int) -> Reply:
        return Reply(f"1. {KEY}\n2. b", status=500 if fail and tries < 1 else 200)

    with serving(repeating) as chat:
        generate(llm(chat))
        assert {headers["authorization"] for headers in chat.headers} == {f"Bearer {KEY}"}
        with (
            pytest.raises(DataError) as caught,
            serving(lambda *_: Reply(status=401, raw=KEY.encode())) as no,
        ):
            generate(llm(no), output="other")
    printed = capsys.readouterr()
    assert "canary" not in printed.out + printed.err + str(caught.value)
    written = [path for path in Path().rglob("*") if path.is_file()]
    assert len(written) > 5
    for path in written:
        raw = path.read_bytes()
        assert b"canary" not in (gzip.decompress(raw) if path.suffix == ".gz" else raw), path


def test_a_dry_run_prints_the_first_prompts_and_the_requests_and_writes_nothing(capsys, monkeypatch):
    monkeypatch.delenv("LLM_KEY")
    with serving(calm) as chat:
        before = sorted(Path().rglob("*"))
        generate(llm(chat), {"kind": "local", "name": "not/there"}, dry_run=True, shard="0/2")
        assert chat.bodies == []
    assert sorted(Path().rglob("*")) == before
    shown = capsys.readouterr().out
    assert shown.count("Input sentence: sentence 0 stands here. Output:") == 2
    assert shown.count("Input sentence: ") == 4
    table = [line.split() for line in shown.splitlines() if line.startswith(("m ", "not/there ", "all "))]
    # Blocks 0 and 2 of 5, 5 and 2 sentences are shard 0's: 7 sentences, two requests each.
    assert table == [["m", "24", "14"], ["not/there", "24", "14"], ["all", "48", "28"]]


def test_without_the_package_it_says_how_to_get_it_before_anything_is_asked(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(generation, "find_spec", lambda name: None if name == "openai" else found(name))
    said = r"generate needs the openai package; pip install '\.\[generate\]'"
    with serving(calm) as chat:
        with pytest.raises(ConfigError, match=said):
            generate({"kind": "local", "name": "not/there"}, llm(chat))
        assert chat.bodies == []
    assert not Path("out").exists()


def test_a_missing_key_names_its_model_before_anything_is_asked(monkeypatch):
    monkeypatch.delenv("LLM_KEY")
    with serving(calm) as chat:
        with pytest.raises(DataError, match=r"llms\[1\]: the environment variable LLM_KEY is not set"):
            generate(llm(chat, key_variable=None), llm(chat))
        assert chat.bodies == []


@pytest.mark.realdata
def test_the_papers_input_is_the_first_sentence_of_every_stsb_pair(capsys):
    data = f"data_dir='{os.environ['EMBEDRUN_DATA']}'"
    given = ["dataset=stsb", "column=text1", "output=out", data, "dry_run=true"]
    assert main([*given, "llms=[{kind: local, name: x}]"]) == 0
    shown = capsys.readouterr().out
    assert "Input sentence: A plane is taking off.. Output:" in shown
    count = int(shown.rpartition(" sentences, ")[0].rpartition("\n")[2].replace(",", ""))
    assert 5000 < count < 5749  # some of the 5,749 stand in several pairs
