"""What the command lines of all commands, and of the actions of `data`, have in common."""

import re

import pytest

from embedrun.cli import COMMANDS, main
from embedrun.commands.completion import answers

ACTIONS = [f"data {action}" for action in answers("embedrun data ")]
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


def test_help_says_how_a_command_is_called_and_what_the_tab_key_offers(helped):
    for line in LINES:
        text = helped(line)
        assert text.startswith(f"usage: embedrun {line} ")
        assert text.partition("\nexamples:\n")[2].count(f"embedrun {line.split()[0]}") >= 2
        assert listed(text) <= set(answers(f"embedrun {line} --")), line


def test_what_is_no_flag_of_a_command_is_refused_with_the_way_to_its_help(capsys):
    for line in LINES:
        assert main([*line.split(), "--hel"]) == 2  # which would be short for --help
        said = capsys.readouterr()
        assert said.out == ""
        assert re.search(rf"  (embedrun {line.split()[0]}.*): .*; \1 --help lists what it takes\n", said.err)
