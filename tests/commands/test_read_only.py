"""Places that take no files: each command says what is not writable and which option names another."""

import os
from pathlib import Path

import pytest
import small_disk

from embedrun.runs.directory import Run

LLM = "llms=[{kind: http, url: 'http://localhost:9/v1', model: m}]"


def test_every_command_that_writes_says_what_is_not_writable(embedrun, tiny, options, tmp_path):
    """All in one process, since only that one has the read-only file system."""
    place = tmp_path / "place"
    place.mkdir()
    why = f"nothing can be written into {str(place)!r}: it is on a read-only file system"
    sweep, encode = ("train", "-m", *options, "seed=1,2"), ("encode", tiny.path, "texts.txt", "-o")
    scored = ("evaluation=heldout", "dataset=toy")
    cases = {
        ("train", *options): "outputs: cannot make a directory below 'outputs/quickstart' (Read-only",
        ("train", *options, "hydra.run.dir=new"): "hydra.run.dir: cannot make 'new' ([Errno 30] Read-only",
        sweep: f"hydra.sweep.dir: {why}; name a folder elsewhere with hydra.sweep.dir=DIR",
        (*sweep, "hydra.sweep.dir=new"): f"hydra.sweep.dir: {why}; name a folder elsewhere",
        ("resume", "run"): "run: cannot be written into (Read-only file system); a run is resumed where",
        ("evaluate", f"model={tiny.path}", *scored): "outputs: cannot make a directory below 'outputs/ev",
        ("export", tiny.path, "a/b"): f"DEST: 'a/b' cannot be made: {why}; name another",
        (*encode, "x.npy"): f"-o: 'x.npy' cannot be made: {why}; name another",
        (*encode, "a/x.parquet"): f"-o: 'a/x.parquet' cannot be made: {why}; name another",
        ("report", "run"): "run/report.html' cannot be written (Read-only file system); name a file with -o",
        ("tune", *options, "training.lr=uniform(1,2)", "--trials", "1"): f"--study: {why}; start the",
        (
            "generate",
            "input=texts.txt",
            "output=new",
            LLM,
        ): f"output: {why}; name another folder with output=DIR",
        ("annotate", "output=a/new", "teachers=[{name: no}]", "dataset=toy"): f"output: {why}; name another",
        ("collect", "output=new"): f"output: {why}; name another folder with output=DIR",
        ("reproduce", "angle/table4", "--only", "w/o ibn", "dataset=toy"): f"{why}; go to another folder",
    }

    def work() -> None:
        os.chdir(place)
        Path("texts.txt").write_text("A dog runs.\n")
        run = Run.create("toy", {"name": "toy"}, directory="run")
        run.start({"name": "toy"}, [], {})
        run.end("interrupted")
        small_disk.make_read_only(place)
        for words, said in cases.items():
            ended = embedrun(*words)
            assert ended.code == 2, (words, ended)
            assert said in ended.err, (words, ended.err)

    if not small_disk.run(place, 4_000_000, work):
        pytest.skip("this machine lets no process have a file system of its own")


def test_a_run_directory_that_cannot_be_made_for_any_other_reason_is_a_fault_of_its_option(embedrun, options):
    for name, said in (("/proc/none/run", "No such file"), ("r" * 300, "File name too long")):
        ended = embedrun("train", *options, f"hydra.run.dir={name}")
        assert ended.code == 2
        assert f"hydra.run.dir: cannot make {name!r} (" in ended.err
        assert said in ended.err
        assert "; name another" in ended.err


@pytest.mark.parametrize("name", ["/proc/none/x.npy", f"{'x' * 300}.npy", f"{'x' * 230}.parquet"])
def test_vectors_that_find_no_place_are_a_fault_of_the_option(embedrun, tiny, name):
    Path("texts.txt").write_text("A dog runs.\n")
    ended = embedrun("encode", tiny.path, "texts.txt", "-o", name)
    assert (ended.code, ended.out) == (2, "")
    assert f"-o: {name!r} cannot be made: " in ended.err


@pytest.mark.parametrize("name", ["/proc/none/x", "x" * 300])
def test_an_export_that_finds_no_place_is_a_fault_of_its_argument(embedrun, tiny, name):
    ended = embedrun("export", tiny.path, name)
    assert (ended.code, ended.out) == (2, "")
    assert f"DEST: {name!r} cannot be made: " in ended.err
