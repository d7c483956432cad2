import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from github_server import GitHub, issue, pull, running

pytest.importorskip("hishel.httpx2")

from embedrun import plot
from embedrun.curation.collection.github import Server
from embedrun.curation.collection.plan import plan_collect
from embedrun.errors import ConfigError
from embedrun.store import Store, verify

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "ghp_canary0123456789abcdef"
NAMED = ("repositories=[numpy/numpy,psf/requests]",)
SHARES = ("splits.dev=0.1", "splits.test=0.1", "negatives=1")


def fill(hub: GitHub) -> None:
    """Two repositories of 20 duplicates, 40 other issues and a pull request each."""
    for name in ("numpy/numpy", "psf/requests"):
        issues = [issue(number, f"{name} title {number}", "word " * number) for number in range(1, 61)]
        comments = [(2 * index, f"Duplicate of #{2 * index - 1}") for index in range(1, 20)]
        labelled = issue(40, f"{name} title 40", "", labels=[{"name": "duplicate"}])
        timeline = [{"event": "commented", "body": "see #39"}, {"event": "marked_as_duplicate"}]
        hub.add(name, [*issues[:39], labelled, *issues[40:], pull(61, "fix")], comments, n40=timeline)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    with running(page=20) as hub:
        fill(hub)
        yield hub


@pytest.fixture
def collect(embedrun, hub):
    def run(*overrides: str):
        return embedrun(
            "collect",
            "output=out",
            f"api={hub.api}",
            *NAMED,
            *SHARES,
            *overrides,
        )

    return run


def content(folder: str | Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((Path(folder) / "github_issues").iterdir())}


def rows(split: str) -> list[dict]:
    text = gzip.decompress(Path(f"out/github_issues/{split}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def test_a_collection_is_pairs_in_the_store_layout_and_a_table(collect):
    ended = collect()
    assert ended.code == 0, ended.err
    assert sorted(content("out")) == [
        "dev.jsonl.gz", "lengths.png", "provenance.json", "test.jsonl.gz", "train.jsonl.gz"
    ]  # fmt: skip
    every = {split: rows(split) for split in ("train", "dev", "test")}
    # Of 40 duplicates a tenth goes to dev and to test, each with one negative.
    assert {split: len(found) for split, found in every.items()} == {"train": 64, "dev": 8, "test": 8}
    for row in every["train"]:
        name, left, right = row["repository"], row["number1"], row["number2"]
        assert row["text1"].startswith(f"{name} title {left}")
        assert row["text2"].startswith(f"{name} title {right}")
        assert (row["score"] == 1) == (right == left - 1)
    members = [{(row["repository"], row[key]) for row in every[split] for key in ("number1", "number2")}
               for split in every]  # fmt: skip
    assert not members[0] & members[1]
    assert not members[0] & members[2]
    assert not members[1] & members[2]
    lines = ended.out.splitlines()
    assert lines[0].split() == ["train", "dev", "test"]
    assert lines[2].split() == ["positive", "32", "4", "4"]
    assert lines[4].split() == ["total", "64", "8", "8"]
    assert lines[-1] == "out/github_issues"


def test_the_folder_is_a_store_of_its_own(collect, embedrun):
    collect()
    store = Store(Path("out"))
    assert len(store.manifest) == 3
    assert [verify(store, entry) for entry in store.manifest] == [[], [], []]


def test_provenance_says_what_was_found_and_how(collect):
    collect()
    found = json.loads(content("out")["provenance.json"])
    assert found["repositories"]["psf/requests"] == {
        "by_comment": 19, "by_event": 1, "issues": 60, "pull_requests": 1
    }  # fmt: skip
    assert found["settings"]["seed"] == 42
    assert found["length_unit"] == "words"
    assert found["splits"]["train"]["positive"] == 32


def test_nothing_is_fetched_twice(collect, hub):
    collect()
    first, before = content("out"), len(hub.requests)
    assert set(hub.answered.values()) == {1}
    ended = collect()
    assert (ended.code, content("out"), len(hub.requests)) == (0, first, before)
    assert "is finished; nothing is fetched" in ended.err
    assert "positive" in ended.out
    # Another seed over the same pages asks for nothing either.
    assert collect("output=other", "cache=out/pages", "seed=1").code == 0
    assert len(hub.requests) == before
    assert content("other") != first


def test_the_same_pages_give_the_same_bytes(collect):
    collect()
    collect("output=other", "cache=out/pages")
    assert content("other") == content("out")


def test_killed_again_and_again_it_loses_nothing_and_asks_for_nothing_twice(collect, hub, monkeypatch):
    collect("output=whole")
    needed = len(hub.requests)
    assert needed == 14  # of each repository: itself, 4 pages of issues, 1 of comments, a timeline
    hub.requests.clear()
    hub.answered.clear()
    send, sent = Server._send, iter(range(999))

    def killed(self, *arguments):
        if next(sent) % 4 == 3:  # after three more answers
            raise KeyboardInterrupt
        return send(self, *arguments)

    monkeypatch.setattr(Server, "_send", killed)
    for _ in range(4):
        assert collect().code == 130
        assert not Path("out/github_issues").exists()
    assert collect().code == 0
    assert content("out") == content("whole")
    assert (len(hub.requests), set(hub.answered.values())) == (needed, {1})


def test_a_kill_while_writing_leaves_no_half_a_data_set(collect, hub, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(plot, "lengths", killed)
        assert collect().code == 130
    assert not Path("out/github_issues").exists()
    before = len(hub.requests)
    assert collect().code == 0
    assert len(hub.requests) == before
    assert not [path for path in Path("out").iterdir() if path.name.startswith(".tmp-")]


def test_a_process_that_is_killed_with_half_an_answer_loses_nothing(collect, hub):
    collect("output=whole")
    hub.requests.clear()
    hub.answered.clear()
    hub.faults = {9: "stall"}
    command = [sys.executable, "-m", "embedrun", "collect", "output=out", f"api={hub.api}", *NAMED, *SHARES]
    own = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while len(hub.requests) < 9:
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    assert collect().code == 0
    assert content("out") == content("whole")
    assert (len(hub.requests), set(hub.answered.values())) == (15, {1})


def test_limits_failures_and_moves_leave_no_trace_in_the_data(collect, hub, monkeypatch):
    collect("output=whole")
    hub.requests.clear()
    hub.moved = {"/repos/psf/requests/issues": "/repos/PSF/Requests/issues"}
    faults = [
        "quota",
        "429",
        "500",
        "drop",
        "cut",
        "secondary",
        "garbage",
        "noise",
        "unpacked",
        "stall",
        "drip",
    ]
    hub.faults = dict(zip(range(1, 99, 2), faults, strict=False))
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    ended = collect("timeout=0.5")
    assert ended.code == 0, ended.err
    assert content("out") == content("whole")
    assert len(hub.requests) == 14 + 1 + 10  # a move, and all faults but the slow answer
    assert len(waited) == 10
    assert ended.err.count("rate limit reached; resuming in") == 3
    assert "Traceback" not in ended.err


def test_a_damaged_cache_costs_its_pages_alone(collect, hub):
    collect("output=whole")
    hub.faults = {24: "500"}
    assert collect("retries=0").code == 3  # after nine answers
    Path("out/pages/pages.db").write_bytes(b"not a database" * 500)
    ended = collect()
    assert ended.code == 0
    assert "out/pages/pages.db is damaged (file is not a database); begun anew" in ended.err
    assert "Traceback" not in ended.err
    assert content("out") == content("whole")


def test_without_its_packages_it_says_how_to_get_them_before_anything_is_fetched(collect, hub, monkeypatch):
    for name in ("hishel", "hishel.httpx2", "embedrun.curation.collection.github"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hishel", None)
    ended = collect()
    assert ended.code == 2
    assert "collect needs hishel and httpx2 (" in ended.err
    assert "pip install '.[collect]'" in ended.err
    assert (hub.requests, Path("out").exists()) == ([], False)


def test_a_refresh_asks_by_etag(collect, hub):
    collect()
    hub.statuses.clear()
    hub.repositories["psf/requests"]["issues"][1]["title"] = "psf/requests title 2, edited"
    assert collect("output=new", "cache=out/pages", "refresh=true").code == 0
    assert (hub.statuses.count(304), hub.statuses.count(200)) == (13, 1)
    assert b"edited" in b"".join(
        gzip.decompress(data) for name, data in content("new").items() if name.endswith("gz")
    )


def test_the_token_is_written_nowhere(collect, hub):
    ended = collect()
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for _, headers in hub.requests)
    assert TOKEN not in ended.out + ended.err
    assert [path.name for path in Path("out/pages").iterdir()] == ["pages.db"]  # closed, so all is in it
    for path in Path("out").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert TOKEN.encode() not in (gzip.decompress(data) if path.suffix == ".gz" else data)
            assert b"uthorization" not in data


def test_without_a_token_the_person_is_told(collect, hub, monkeypatch):
    monkeypatch.delenv("GITHUB_TOKEN")
    assert "no token in GITHUB_TOKEN: GitHub allows 60 requests an hour" in collect().err
    assert not any("authorization" in headers for _, headers in hub.requests)


def test_lengths_are_counted_with_a_tokenizer(collect):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "word": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(3)  # the lengths are those of the whole texts all the same
    Path("model").mkdir()
    tokenizer.save("model/tokenizer.json")
    assert "median words a text" in collect("output=words").out
    ended = collect("tokenizer=model")
    assert "texts over 512 tokens" in ended.out
    by_word = json.loads(content("words")["provenance.json"])["splits"]
    assert json.loads(content("out")["provenance.json"])["splits"] == by_word


def test_a_tokenizer_that_cannot_be_read_is_refused_before_anything_is_fetched(collect, hub):
    Path("model").mkdir()
    Path("model/tokenizer.json").write_text("{}")
    ended = collect("tokenizer=model")
    assert ended.code == 3
    assert "tokenizer: model/tokenizer.json cannot be read" in ended.err
    assert hub.requests == []


def test_repositories_that_are_not_there_are_named_together(collect, hub):
    hub.repositories["psf/requests"]["has_issues"] = False
    ended = collect("repositories=[numpy/numpi,psf/requests,no/such]")
    assert ended.code == 3
    assert "input has 3 problems" in ended.err
    assert "numpy/numpi: no such repository" in ended.err
    assert "psf/requests: its issues are switched off" in ended.err


def test_an_answer_in_another_format_is_a_data_error(collect, hub):
    del hub.repositories["psf/requests"]["issues"][3]["title"]
    ended = collect()
    assert ended.code == 3
    assert "psf/requests: an answer that is not in the format of GitHub's REST API" in ended.err


def test_every_fault_of_the_configuration_is_named_together(refused):
    said = refused(
        "collect", "output=out", "repositories=[numpy,a/b,A/B]", "api=http://example.org", "splits.dev=1.5",
        "tokenizer=none", "token_variable=MY-TOKEN", "hydra.run.dir=x",
    )  # fmt: skip
    assert "config has 7 problems" in said
    assert "repositories: 'numpy' is not owner/name" in said
    assert "repositories: a/b is given twice" in said
    assert "would send the token in the clear" in said
    assert "splits.dev: a share below 1, or a whole number" in said
    assert "no file 'none/tokenizer.json'" in said
    assert "hydra.run.dir: collect has no run directory" in said


def test_the_output_has_to_be_named_and_unknown_options_are_refused(refused):
    said = refused("collect", "negatves=2", "max_issues=0")
    assert "output: no value given; pass output=..." in said
    assert "negatves: unknown key; did you mean 'negatives'?" in said
    assert "max_issues: must be at least 1, got 0" in said


def test_a_token_typed_as_an_option_is_not_repeated(refused):
    secret = "ghp_" + "a1" * 18
    assert secret not in refused("collect", "output=out", f"token_variable={secret}")
    assert "hunter2" not in refused("collect", "output=out", "api='https://me:hunter2@api.github.com'")


def test_a_token_with_a_line_end_inside_is_refused(refused, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_x\r\nX-Evil: 1")
    said = refused("collect", "output=out")
    assert "what GITHUB_TOKEN holds is not a token" in said
    assert "Evil" not in said


def test_several_collections_at_once_are_refused(refused):
    assert "one at a time" in refused("collect", "-m", "output=out", "seed=1,2")
    assert "one at a time" in refused("collect", "hydra.mode=MULTIRUN", "output=out", "seed=1,2")


def test_a_finished_collection_is_not_overwritten(collect, hub):
    collect()
    before, asked = content("out"), len(hub.requests)
    ended = collect("seed=7")
    assert ended.code == 2
    assert "is of a collection with another seed" in ended.err
    ended = collect("refresh=true")
    assert ended.code == 2
    assert "is finished and is not overwritten" in ended.err
    assert (content("out"), len(hub.requests)) == (before, asked)


def test_the_preset_is_the_paper(embedrun, monkeypatch):
    ended = embedrun("collect", "output=out", "--cfg", "job")
    assert ended.code == 0
    assert ended.out.count("\n- ") == 55
    assert "GITHUB_TOKEN" in ended.out
    assert not os.path.exists("out")


def test_the_paper_fits_the_schema():
    from omegaconf import OmegaConf

    from embedrun.config import presets

    plain = OmegaConf.to_container(OmegaConf.load(presets.folder() / "collect.yaml"))
    for key in ("defaults", "hydra"):
        del plain[key]
    plan = plan_collect({**plain, "output": "out"}, None)
    assert len(plan.config.repositories) == 55
    assert plan.config.splits.dev == pytest.approx(1547 / 21660, abs=5e-5)
    assert plan.config.negatives == pytest.approx((9108 + 773 + 741) / (9457 + 774 + 807), abs=5e-4)
    with pytest.raises(ConfigError):
        plan_collect(plain, None)


def test_a_model_trains_on_a_collection(collect, embedrun, options):
    collect()
    own = [option for option in options if not option.startswith("dataset.")]
    ended = embedrun(
        "train", *own, "dataset=github_issues", "dataset.path=out", "loss=cosent", "hydra.run.dir=run"
    )
    assert ended.code == 0, ended.err
    assert "github_issues_test/spearman" in json.loads(Path("run/results.json").read_text())["scores"]
