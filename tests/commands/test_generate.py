import gzip
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from chat_server import ChatServer, Reply, serving

from embedrun.commands.generate import main
from embedrun.curation.generation import output, plan
from embedrun.curation.generation.generate import run
from embedrun.curation.generation.llm import Responses
from embedrun.dataset.pairs import Pairs
from embedrun.errors import ConfigError, DataError
from embedrun.store import Store

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


def troubled(prompt: str, tries: int) -> Reply:
    """Every prompt but a few fails in a way of its own before it is answered."""
    digest = hashlib.sha256(prompt.encode()).digest()[0] % 7
    failures = [
        [],
        [Reply(said(prompt), drip=60)],
        [Reply(status=429, headers={"Retry-After": "0"})],
        [Reply(status=500, raw=b"oops"), Reply(status=503)],
        [Reply(drop=0)],
        [Reply(drop=60)],
        [Reply(raw=b"<html>not now</html>")],
    ][digest]
    return failures[tries] if tries < len(failures) else Reply(said(prompt))


def calm(prompt: str, tries: int) -> Reply:
    return Reply(said(prompt))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Blocks of five sentences, no waiting, and no proxy in between."""
    monkeypatch.setattr(output, "BLOCK", 5)
    monkeypatch.setattr(output.blocks, "__defaults__", (5,))

    async def sleep(delay: float) -> None:
        """The openai package waits with this between two tries."""

    monkeypatch.setattr(anyio, "sleep", sleep)
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
    return {path.name: path.read_bytes() for path in Path(output).iterdir() if path.is_file()}


def rows(output: str = "out") -> list[dict]:
    text = gzip.decompress((Path(output) / "pairs.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def rejects(output: str = "out") -> list[dict]:
    return [json.loads(line) for line in (Path(output) / "rejects.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_four_formats_and_every_kind_of_trouble_lose_and_double_nothing(capsys):
    with serving(troubled) as chat:
        generate(llm(chat, parallel=8), timeout=2.0)
    assert len(chat.asked) == 24  # 12 different sentences, each for positives and for negatives
    assert set(chat.answered.values()) == {1}
    assert max(chat.asked.values()) == 3
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


def test_the_pairs_train_as_a_data_set_of_pairs():
    with serving(calm) as chat:
        generate(llm(chat))
    found = Pairs(path="out/pairs.jsonl.gz").read("train", Store(Path("none")))
    assert found.texts["left"][:4] == [SENTENCES[0]] * 4
    assert found.targets["score"].tolist() == [1, 1, 0, 0] * 11


def test_faulty_rows_that_a_data_set_skips_are_listed(capsys):
    Path("in.tsv").write_text("text1\ttext2\tscore\na\tb\t1\nc\td\tmuch\n")
    dataset = {"name": "pairs", "path": "in.tsv", "on_bad_row": "skip"}
    with serving(lambda *_: Reply("No.")) as chat:
        generate(llm(chat), input=None, dataset=dataset)
    assert {row["text1"] for row in rejects()} == {"a"}
    assert "1 faulty row of your files skipped" in capsys.readouterr().err
    assert json.loads(Path("out/skipped_rows.jsonl").read_text())["row"] == 3


def test_the_provenance_says_where_all_comes_from():
    with serving(calm) as chat:
        generate(llm(chat, temperature=0.5))
    found = json.loads(made()["provenance.json"])
    assert found["input"] == {"file": "in.txt", "sentences": 12}
    assert found["requests"] == 24
    assert found["llms"] == [
        {"kind": "http", "model": "m", "max_tokens": 512, "temperature": 0.5, "seed": None}
    ]
    assert (found["counts"]["positive"], found["counts"]["negative"]) == (22, 22)
    for name, digest in found["files"].items():
        assert hashlib.sha256(made()[name]).hexdigest() == digest


@pytest.mark.parametrize("moment", [1, 7, 23])
def test_a_run_that_is_killed_while_it_asks_goes_on_to_the_same_bytes(monkeypatch, moment):
    with serving(calm) as chat:
        generate(llm(chat), output="whole")
        whole, asked = made("whole"), chat.answered.copy()
        keep, count = Responses.keep, iter(range(1000))

        def killed(*arguments) -> None:
            if next(count) == moment:
                raise KeyboardInterrupt
            keep(*arguments)

        monkeypatch.setattr(Responses, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            generate(llm(chat, parallel=1))
        assert made() == {}
        monkeypatch.setattr(Responses, "keep", keep)
        generate(llm(chat))
    assert made() == whole
    # The one answer that came and could not be kept is asked for again, and no other.
    again = chat.answered - asked - asked
    assert sum(again.values()) == 1


def test_trouble_a_redirect_and_a_kill_in_between_go_on_to_the_same_bytes(monkeypatch):
    with serving(calm) as chat:
        generate(llm(chat), output="whole")
    away = True

    def moving(prompt: str, tries: int) -> Reply:
        if away and "sentence 3 " in prompt:
            return Reply(status=307, headers={"Location": f"{other.url}/chat/completions"})
        return troubled(prompt, tries)

    keep, count = Responses.keep, iter(range(1000))

    def killed(*arguments) -> None:
        if next(count) == 3:
            raise KeyboardInterrupt
        keep(*arguments)

    with serving(calm) as other, serving(moving) as chat:
        with pytest.raises(DataError, match=r"HTTP 307, a redirect; give the address that it leads to"):
            generate(llm(chat), timeout=2.0)
        assert made() == {}
        assert other.bodies == []
        away = False
        monkeypatch.setattr(Responses, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            generate(llm(chat), timeout=2.0)
        monkeypatch.setattr(Responses, "keep", keep)
        generate(llm(chat), timeout=2.0)
    assert made() == made("whole")


@pytest.mark.parametrize("moment", range(6))
def test_a_run_that_is_killed_while_it_writes_goes_on_to_the_same_bytes(monkeypatch, moment):
    with serving(calm) as chat:
        generate(llm(chat), output="whole")
        whole = made("whole")
        asked = chat.answered.copy()
        publish, count = output.publish, iter(range(1000))

        def killed(*arguments, **more) -> None:
            if next(count) == moment:
                raise KeyboardInterrupt
            publish(*arguments, **more)

        monkeypatch.setattr(output, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            generate(llm(chat))
        monkeypatch.setattr(output, "publish", publish)
        generate(llm(chat))
    assert made() == whole
    assert chat.answered - asked == asked  # each answer once for either folder
    assert not list(Path("out").rglob(".tmp-*"))


def test_a_second_run_asks_nothing_and_changes_no_file():
    with serving(calm) as chat:
        generate(llm(chat))
        before = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")}
        asked = len(chat.bodies)
        generate(llm(chat))
        assert len(chat.bodies) == asked
    assert {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")} == before


def test_shards_in_any_order_give_the_bytes_of_one(capsys):
    with serving(calm) as chat:
        generate(llm(chat), output="whole")
        for index in (2, 0):
            capsys.readouterr()
            generate(llm(chat), shard=f"{index}/3")
            assert made() == {}
            assert "parts are there" in capsys.readouterr().out
        generate(llm(chat), shard="1/3")
    assert made() == made("whole")


def test_parts_made_on_another_machine_are_joined_by_whoever_has_them_all():
    with serving(calm) as chat:
        generate(llm(chat), output="whole")
        generate(llm(chat), output="there", shard="0/2")
        generate(llm(chat), output="here", shard="1/2")
        asked = len(chat.bodies)
        for part in Path("there/parts").iterdir():
            part.rename(Path("here/parts") / part.name)
        generate(llm(chat), output="here", shard="1/2")
        assert len(chat.bodies) == asked
    assert made("here") == made("whole")


def test_when_the_endpoint_gives_up_the_answers_so_far_are_kept():
    down = True

    def failing(prompt: str, tries: int) -> Reply:
        return Reply(status=500) if down and "sentence 7 " in prompt else calm(prompt, tries)

    with serving(failing) as chat:
        with pytest.raises(DataError, match=r"gave up after 2 tries: HTTP 500"):
            generate(llm(chat), retries=1)
        assert made() == {}
        kept = len(list(Path("out/responses").rglob("*.json")))
        assert kept == sum(chat.answered.values()) >= 10  # the whole first block
        down = False
        generate(llm(chat))
    assert set(chat.answered.values()) == {1}
    assert len(rows()) == 44


def test_the_pairs_of_an_ensemble_are_joined_and_duplicates_count_once():
    def both(prompt: str, tries: int) -> Reply:
        text = prompt.partition("Input sentence: ")[2].removesuffix(". Output:")
        return Reply(f"1. {text} too\n2. {text} again" if "synonymous" in prompt else f"- not {text}")

    with serving(calm) as first, serving(both) as second:
        generate(llm(first, "a"), llm(second, "b"), limit=1)
    text = SENTENCES[0]
    assert [(row["text2"], row["score"], row["llm"]) for row in rows()] == [
        (f"{text} too", 1, "a"),
        (f"indeed {text}", 1, "a"),
        (f"{text} not", 0, "a"),
        (f"never {text}", 0, "a"),
        (f"{text} again", 1, "b"),
        (f"not {text}", 0, "b"),
    ]
    assert [(row["text"], row["reason"]) for row in rejects()] == [(f"{text} too", "given before by a")]


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


def test_another_configuration_does_not_go_on_in_the_same_folder():
    with serving(calm) as chat:
        generate(llm(chat))
        before = made()
        asked = len(chat.bodies)
        with pytest.raises(DataError, match=r"made with another size; .*give another output=DIR"):
            generate(llm(chat), size=3)
        assert len(chat.bodies) == asked
    assert made() == before


@pytest.mark.parametrize("fail", [False, True])
def test_the_key_is_sent_and_stands_in_no_file_and_no_message(capsys, fail):
    def repeating(prompt: str, tries: int) -> Reply:
        return Reply(f"1. {KEY}\n2. b", status=500 if fail and tries < 1 else 200)

    with serving(repeating) as chat:
        generate(llm(chat))
        assert {headers["Authorization"] for headers in chat.headers} == {f"Bearer {KEY}"}
        with (
            pytest.raises(DataError) as caught,
            serving(lambda *_: Reply(status=401, raw=KEY.encode())) as no,
        ):
            generate(llm(no), output="other")
    printed = capsys.readouterr()
    assert "canary" not in printed.out + printed.err + str(caught.value)
    written = [path for path in Path().rglob("*") if path.is_file()]
    assert len(written) > 24
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


@pytest.mark.parametrize("argument", ["--help", "--cfg=job", "dry_run=true"])
def test_what_asks_nobody_does_not_load_the_package(argument):
    one = "{kind: http, url: 'http://127.0.0.1:1/v1', model: m}"
    arguments = ["input=in.txt", "output=out", "gpu=cpu", f"llms=[{one}]", argument]
    code = (
        "import sys; from embedrun.commands.generate import main; "
        f"code = main({arguments!r}); print(code, sorted({{'openai', 'httpx2'}} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.endswith("\n0 []\n")


def test_without_the_package_it_says_how_to_get_it_before_anything_is_asked(monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(plan, "find_spec", lambda name: None if name == "openai" else found(name))
    said = r"generate needs the openai package; pip install '\.\[generate\]'"
    with serving(calm) as chat:
        with pytest.raises(ConfigError, match=said):
            generate({"kind": "local", "name": "not/there"}, llm(chat))
        generate(llm(chat), dry_run=True)
        assert "nothing was asked" in capsys.readouterr().out
        assert chat.bodies == []
    assert not Path("out").exists()
    with pytest.raises(DataError, match="not/there"):  # which needs no package
        generate({"kind": "local", "name": "not/there"})


def test_what_is_missing_is_named_together(monkeypatch):
    monkeypatch.delenv("LLM_KEY")
    with serving(calm) as chat:
        with pytest.raises(DataError) as caught:
            generate(llm(chat), {"kind": "local", "name": "./nowhere"}, input="imn.txt")
        assert chat.bodies == []
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "input",
        "llms[0].key_variable",
        "model './nowhere'",
    ]
    assert "did you mean 'in.txt'?" in str(caught.value)
    assert not Path("out").exists()


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(monkeypatch):
    monkeypatch.setenv("LLM_KEY", f"{KEY}\n")
    with serving(calm) as chat, pytest.raises(DataError, match="its value is not a key") as caught:
        generate(llm(chat))
    assert "canary" not in str(caught.value)


def test_a_key_in_the_clear_is_a_warning():
    from embedrun.config.options import GenerateConfig, LlmConfig
    from embedrun.curation.generation.plan import unguarded

    def warnings(url: str, key: str | None = "K") -> int:
        one = LlmConfig(kind="http", url=url, model="m", key_variable=key)
        return len(unguarded(GenerateConfig(output="o", llms=[one], gpu=None)))  # type: ignore[arg-type]

    assert warnings("http://host/v1") == 1
    assert warnings("http://host/v1", None) == 0
    assert [warnings(f"{at}/v1") for at in ("https://host", "http://localhost:1", "http://[::1]:1")] == [
        0
    ] * 3


@pytest.mark.parametrize(
    ("argument", "fault", "words"),
    [
        ("hydra.run.dir=x", ConfigError, "generate makes no run directory; give output=DIR"),
        ("output=in.txt", DataError, "output: in.txt is a file; give a folder"),
        ("sise=3", ConfigError, "sise: unknown key; did you mean 'size'?"),
    ],
)
def test_what_generate_does_not_take_is_refused(argument, fault, words):
    with pytest.raises(fault, match=words.replace("?", r"\?")):
        main(["output=out", "input=in.txt", "llms=[{kind: local, name: ./x}]", argument])
    assert not Path("out").exists()


def test_a_folder_with_the_files_of_somebody_else_is_left_alone():
    Path("out").mkdir()
    Path("out/pairs.jsonl.gz").write_bytes(b"mine")
    with serving(calm) as chat, pytest.raises(DataError, match="not the parts they were made from"):
        generate(llm(chat))
    assert made() == {"pairs.jsonl.gz": b"mine"}


def test_an_ensemble_without_a_pair_says_so(capsys):
    with serving(lambda *_: Reply("No.")) as chat:
        generate(llm(chat))
    assert "no answer gave a pair" in capsys.readouterr().err
    assert rows() == []
    assert len(rejects()) == 24


@pytest.fixture
def decoder(tmp_path: Path) -> Callable[[], Path]:
    """A Llama of random weights over the bytes of a few words; its answers are no lists."""

    def put() -> Path:
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

        words = Tokenizer(models.WordLevel({"</s>": 0, "cat": 1, "sits": 2}, unk_token="cat"))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        folder = tmp_path / "llama"
        PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>").save_pretrained(folder)
        shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = LlamaConfig(vocab_size=3, max_position_embeddings=128, eos_token_id=0, **shape)
        LlamaForCausalLM(config).save_pretrained(folder)
        return folder

    return put


def test_a_local_model_is_interrupted_and_goes_on_to_the_same_bytes(decoder, monkeypatch):
    options = {"max_new_tokens": 6, "batch_size": 3, "temperature": 1.0}
    local = {"kind": "local", "name": str(decoder()), **options}
    generate(local, output="whole")
    keep, count = Responses.keep, iter(range(1000))

    def killed(*arguments) -> None:
        if next(count) == 7:  # inside the third batch
            raise KeyboardInterrupt
        keep(*arguments)

    monkeypatch.setattr(Responses, "keep", killed)
    with pytest.raises(KeyboardInterrupt):
        generate(local)
    monkeypatch.setattr(Responses, "keep", keep)
    generate(local)
    assert made() == made("whole")
    found = json.loads(made()["provenance.json"])
    assert found["llms"][0]["name"] == "llama"  # and not where it lies
    assert found["counts"]["rejects"] >= 12


@pytest.mark.realdata
def test_the_papers_input_is_the_first_sentence_of_every_stsb_pair(capsys):
    data = f"data_dir='{os.environ['EMBEDRUN_DATA']}'"
    given = ["dataset=stsb", "column=text1", "output=out", data, "dry_run=true"]
    assert main([*given, "llms=[{kind: local, name: x}]"]) == 0
    shown = capsys.readouterr().out
    assert "Input sentence: A plane is taking off.. Output:" in shown
    count = int(shown.rpartition(" sentences, ")[0].rpartition("\n")[2].replace(",", ""))
    assert 5000 < count < 5749  # some of the 5,749 stand in several pairs
