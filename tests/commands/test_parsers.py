"""What the command lines of all commands, and of the actions of `data`, have in common."""

import re

import pytest

from embedrun.cli import COMMANDS, main
from embedrun.commands.completion import WORDS, flags

ACTIONS = [f"data {action}" for action in WORDS["data"]]
LINES = [*COMMANDS, *ACTIONS]


@pytest.fixture
def helped(capsys: pytest.CaptureFixture[str]):
    """What `--help` prints, which is all that it does."""

    def ask(line: str) -> str:
        assert main([*line.split(), "--help"]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return said.out

    return ask


def listed(text: str) -> set[str]:
    """The long flags that a help lists."""
    heads = re.findall(r"(?m)^  (-.*?)(?:  |$)", text)
    return {flag for head in heads for flag in re.findall(r"--[\w-]+", head)}


@pytest.mark.parametrize("line", LINES)
def test_help_says_how_a_command_is_called_and_shows_examples(line: str, helped):
    text = helped(line)
    assert text.startswith(f"usage: embedrun {line} ")
    assert "--help" in listed(text)
    assert text.partition("\nexamples:\n")[2].count(f"embedrun {line.split()[0]}") >= 2


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("line", ["", *LINES])
def test_help_fits_the_terminal(line: str, columns: int, helped, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert [row for row in helped(line).splitlines() if len(row) > columns] == []


def test_help_of_a_group_is_the_same_for_every_command_that_takes_it(capsys):
    pages = set()
    for command in ("train", "check", "tune", "reproduce"):
        assert main([command, "--help", "training"]) == 0
        pages.add(capsys.readouterr().out)
    (page,) = pages
    assert page.startswith("training: One training run.\n")


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("flag", ["--frob", "--hel"])  # the second would be short for --help
def test_what_is_no_flag_of_a_command_is_refused_with_the_way_to_its_help(line: str, flag: str, capsys):
    assert main([*line.split(), flag]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(rf"  (embedrun {line.split()[0]}.*): .*; \1 --help lists what it takes\n", said.err)


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"data"}))
def test_the_tab_key_offers_the_flags_of_a_command(command: str, helped):
    refused = {"--multirun"} if command == "collect" else set()
    assert set(flags()[command]) == (listed(helped(command)) | {"--debug"}) - refused


def test_the_tab_key_offers_the_flags_of_the_actions_of_data(helped):
    every = [listed(helped(line)) for line in ACTIONS]
    assert set(flags()["data"]) == set.union(*every) | {"--debug"}
