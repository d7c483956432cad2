"""Keys and passwords of the environment: whatever fails and quotes them, they are written nowhere."""

import gzip
from importlib import import_module
from pathlib import Path

import pytest
from accidents import at_step

KEYS = {
    "HF_TOKEN": "hf_canary0123456789",
    "WANDB_API_KEY": "canary1canary1canary1",
    "OPENAI_API_KEY": "sk-canary-2345678901",
    "DB_PASSWORD": "canary3/with=all&signs",
    "AWS_SECRET_ACCESS_KEY": "canary4+/abcdefghijkl",
    "github_token": "ghp_canary5canary5",
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def quoting() -> None:
    """A library's own fault, which quotes all that it was given, in a chain of two."""
    held = dict(KEYS)  # a local, as a debugger would show
    try:
        raise ValueError(f"401 for {held}")
    except ValueError as fault:
        raise RuntimeError(f"no answer of https://host with {list(held.values())}") from fault


def hidden(folder: Path, *said: str) -> int:
    """How many files were searched; none has a key."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        content = path.read_bytes()
        assert b"canary" not in (gzip.decompress(content) if path.suffix == ".gz" else content), path
    assert not [text for text in said if "canary" in text]
    return len(files)


def test_an_unexpected_fault_that_quotes_keys_leaves_none_in_run_or_message(embedrun, options):
    with at_step(2, quoting):
        ended = embedrun("train", *options, "hydra.run.dir=run", "--debug")
    assert ended.code == 1
    assert "RuntimeError: no answer of https://host" in ended.err
    assert "ValueError: 401 for {'HF_TOKEN': '***'" in Path("run/run.log").read_text()
    assert "***" in Path("run/status.json").read_text()
    assert hidden(Path(), ended.out, ended.err) > 5
    ended = embedrun("report", "run")
    assert hidden(Path(), ended.out, ended.err) > 6


def test_the_traceback_of_a_command_has_none(embedrun, monkeypatch):
    word = "encode"
    monkeypatch.setattr(import_module(f"embedrun.commands.{word}"), "main", lambda _: quoting())
    ended = embedrun(word, "--debug")
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert hidden(Path(), ended.out, ended.err) == 0
