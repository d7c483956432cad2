import gzip
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from github_server import GitHub, issue, pull, running

pytest.importorskip("github")

from embedrun.curation.collect import plan_collect
from embedrun.errors import ConfigError

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


def test_a_finished_collection_is_shown_again_and_not_overwritten(collect, hub):
    collect()
    first, before = content("out"), len(hub.requests)
    ended = collect()
    assert (ended.code, content("out"), len(hub.requests)) == (0, first, before)
    assert "is finished; nothing is fetched" in ended.err
    assert "positive" in ended.out
    ended = collect("seed=7")
    assert ended.code == 2
    assert "made with other settings (seed); name a new folder (what is kept in out/repositories" in ended.err
    assert (content("out"), len(hub.requests)) == (first, before)
    # Another seed over the same repositories asks for nothing either.
    shutil.copytree("out/repositories", "other/repositories")
    assert collect("output=other", "seed=7").code == 0
    assert len(hub.requests) == before
    assert content("other") != first


def test_a_collection_that_was_stopped_reads_no_repository_again(collect, hub):
    collect("output=whole")
    assert len(hub.requests) == 14  # of each: itself, 4 pages of issues, 1 of comments, a timeline
    hub.requests.clear()
    hub.answered.clear()
    hub.faults = {10: "401"}
    assert collect().code == 3
    assert not Path("out/github_issues").exists()
    assert collect().code == 0
    assert content("out") == content("whole")
    assert not list(Path("out").rglob(".tmp-*"))
    again = {path for path, count in hub.answered.items() if count > 1}
    assert again
    assert all(path.startswith("/repos/psf/requests") for path in again)


def test_without_its_packages_it_says_how_to_get_them_before_anything_is_fetched(collect, hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "github", None)
    ended = collect()
    assert ended.code == 2
    assert "collect needs PyGithub; " in ended.err
    assert "pip install '.[collect]'" in ended.err
    assert (hub.requests, Path("out").exists()) == ([], False)


def test_the_token_is_written_nowhere(collect, hub):
    ended = collect()
    assert all(headers["authorization"] == f"token {TOKEN}" for _, headers in hub.requests)
    assert TOKEN not in ended.out + ended.err
    for path in Path("out").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert TOKEN.encode() not in (gzip.decompress(data) if path.suffix == ".gz" else data)
            assert b"uthorization" not in data


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
    assert "hydra.run.dir, hydra.sweep.dir: no run is made; give output=DIR" in said


def test_the_paper_fits_the_schema():
    from omegaconf import OmegaConf

    from embedrun.config import presets

    plain = OmegaConf.to_container(OmegaConf.load(presets.folder() / "collect.yaml"))
    for key in ("defaults", "hydra"):
        del plain[key]
    config, _, _ = plan_collect({**plain, "output": "out"}, None)
    assert len(config.repositories) == 55
    assert config.splits.dev == pytest.approx(1547 / 21660, abs=5e-5)
    assert config.negatives == pytest.approx((9108 + 773 + 741) / (9457 + 774 + 807), abs=5e-4)
    with pytest.raises(ConfigError):
        plan_collect(plain, None)
