"""A run whose words nobody reads any more, as that of `embedrun train 2>&1 | head -1`."""

import json
import os
import sys
from pathlib import Path

import pytest
from training_commands import Commands

from embedrun.cli import main
from embedrun.console import lasting


@pytest.fixture(scope="module")
def arguments(options: tuple[str, ...]) -> list[str]:
    return ["train", *options, "evaluation=none", "hydra.run.dir=run"]


def assert_whole() -> None:
    """The run has finished, and its log has what it said."""
    status = json.loads(Path("run/status.json").read_text(encoding="utf-8"))
    assert (status["state"], status["error"]) == ("finished", None)
    assert "48 rows of toy, 2 steps" in Path("run/run.log").read_text(encoding="utf-8")


def test_a_run_without_a_reader_goes_to_its_end(arguments: list[str], monkeypatch: pytest.MonkeyPatch):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", lasting(pipe, results=True))
        monkeypatch.setattr(sys, "stderr", lasting(pipe, results=False))
        assert main(arguments) == 0
    assert_whole()


@pytest.mark.slow
def test_a_run_whose_reader_leaves_goes_to_its_end(arguments: list[str]):
    process = Commands(Path.cwd()).start(*arguments).process
    try:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline() == "run directory: run\n"
        process.stderr.close()
        process.stdout.close()
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
    assert_whole()
