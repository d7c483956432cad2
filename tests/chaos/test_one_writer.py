"""One process at a time writes into a run directory, and every run makes one of its own."""

import multiprocessing
from pathlib import Path

import pytest

from embedrun.errors import ConfigError
from embedrun.runs.directory import Run

AT_ONCE = 50


@pytest.mark.chaos
def test_fifty_processes_at_once_get_fifty_directories_and_one_gets_the_one_that_all_name(
    tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    context = multiprocessing.get_context("fork")  # no new interpreter
    together, given = context.Barrier(AT_ONCE), context.Value("i", 0)

    def create() -> None:
        together.wait()
        Run.create("toy", {"seed": 1})
        try:
            Run.create("toy", {"seed": 1}, directory="mine")
        except ConfigError:
            return
        with given:
            given.value += 1

    children = [context.Process(target=create) for _ in range(AT_ONCE)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * AT_ONCE
    assert (len(list(Path("outputs/toy").iterdir())), given.value) == (AT_ONCE, 1)
