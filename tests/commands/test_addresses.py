"""An address with a user or password in it is refused in every option, and shown nowhere."""

from pathlib import Path

import pytest

from embedrun.cli import COMMANDS
from embedrun.runs.directory import Run

SECRET = "pa55/w0rd"
ADDRESS = f"https://joe17:{SECRET}@host/v1"
LLM = f"llms=[{{kind: http, url: '{ADDRESS}', model: m}}]"
TYPED = {
    "train": (f"backbone.name={ADDRESS}", "backbone.name"),
    "evaluate": (ADDRESS, "argument 1"),
    "resume": (ADDRESS, "argument 1"),
    "annotate": (f"teachers=[{{name: '{ADDRESS}'}}]", "teachers"),
    "generate": (LLM, "llms"),
    "collect": (f"api={ADDRESS}", "api"),
    "encode": (ADDRESS, "argument 1"),
    "export": (ADDRESS, "argument 1"),
    "reproduce": (f"gpu.rendezvous={ADDRESS}", "gpu.rendezvous"),
    "table": (ADDRESS, "argument 1"),
    "tune": (f"training.teachers=[{{name: '{ADDRESS}'}}]", "training.teachers"),
    "doctor": (ADDRESS, "argument 1"),
    "completion": (ADDRESS, "argument 1"),
    "report": (ADDRESS, "argument 1"),
    "runs": (f"--diff={ADDRESS}", "--diff"),
    "check": (f"+dataset.path={ADDRESS}", "+dataset.path"),
    "data": (f"--from={ADDRESS}", "--from"),
}


def hidden(text: str) -> bool:
    return not any(part in text for part in ("pa55", "w0rd", "joe17"))


@pytest.mark.parametrize("word", COMMANDS)
def test_every_command_refuses_it_by_the_name_of_the_option(refused, word):
    typed, option = TYPED[word]
    said = refused(word, typed, "another=https://host/v1")
    assert said.startswith(f"config has 1 problem:\n  {option}: holds an address with a user or password")
    assert hidden(said)


def test_a_flag_has_it_as_the_next_word_and_every_fault_is_named(refused):
    said = refused("data", "get", "--from", ADDRESS, f"x={ADDRESS}", "x=fine")
    assert [line.split(":")[0].strip() for line in said.splitlines()[1:]] == ["--from", "x"]
    assert hidden(said)


@pytest.mark.parametrize("more", [(), ("--cfg", "job"), ("-m", "seed=1,2")])
def test_one_in_a_file_of_options_is_refused_before_it_is_shown(refused, own, more):
    folder = own("experiment/mine.yaml", f"# @package _global_\ntracking: {{patience: '{ADDRESS}'}}\n")
    said = refused("train", "+experiment=mine", "--config-dir", folder, *more)
    assert "tracking.patience: holds an address with a user or password" in said
    assert hidden(said)


def test_one_in_a_run_that_is_resumed_is_refused(embedrun):
    run = Run.create("toy", {"name": "toy"}, directory="run")
    run.start({"name": "toy", "backbone": {"name": ADDRESS}}, [], {})
    run.end("interrupted")
    ended = embedrun("resume", "run")
    assert ended.code == 2
    assert "run/config.yaml: backbone.name: holds an address with a user or password" in ended.err
    assert hidden(ended.err + ended.out)


def test_what_others_say_of_one_is_not_written_into_the_log(embedrun):
    run = Run.create("toy", {"name": "toy"}, directory="run")
    run.open_log().error("no answer of %s", ADDRESS)
    assert "no answer of https://***@host/v1" in Path("run/run.log").read_text()
    run.end("failed")


def test_what_was_typed_is_recorded_without_one(monkeypatch):
    from embedrun.runs.directory import describe

    monkeypatch.setattr("sys.argv", ["embedrun", "train", f"x={ADDRESS}"])
    assert hidden(str(describe({})))
