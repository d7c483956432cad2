"""The flags that many commands share, and lists of seeds."""

from pathlib import Path

import pytest

from embedrun.commands.command_line import ComposingParser, seed_list
from embedrun.config.request import Request
from embedrun.errors import ConfigError


def request(*argv: str, command: str = "train") -> Request:
    root = "train" if command == "check" else None
    parsed = ComposingParser(command, "What it does.", (), root=root).request(argv)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize("sign", ["", "++"])
def test_an_experiment_is_added_whatever_its_sign(sign):
    assert request(f"{sign}experiment=a,b", "seed=1").overrides == ("+experiment=a,b", "seed=1")


def test_flags_may_stand_between_overrides():
    parsed = request("seed=1", "-m", "name=x", "--cfg", "job", "--resolve", "training.lr=-1")
    assert parsed == Request(
        command="train",
        overrides=("seed=1", "name=x", "training.lr=-1"),
        multirun=True,
        show=("--cfg", "job", "--resolve"),
    )


def test_the_folder_of_own_files_is_made_absolute():
    Path("mine").mkdir()
    assert request("--config-dir", "mine").config_dir == Path.cwd() / "mine"
    assert request("-cd", "mine").config_dir == Path.cwd() / "mine"


@pytest.mark.parametrize("text", ["1,1", "1.5"])
def test_anything_else_is_refused(text: str):
    with pytest.raises(ConfigError, match="embedrun reproduce: --seeds: expected different whole numbers"):
        seed_list(text, "reproduce")


@pytest.mark.parametrize(
    ("argv", "typed"),
    [
        (["--max-steps=10"], "training.max_steps=10"),
        (["--learning_rate", "seed=1"], "training.lr=..."),
        (["--fp16"], "gpu.precision=fp16"),
    ],
)
def test_an_option_that_is_written_as_a_flag_is_shown_as_it_is_written_here(argv, typed):
    with pytest.raises(ConfigError) as caught:
        request(*argv)
    flag = argv[0].partition("=")[0]
    assert caught.value.problems == [f"{flag}: an option is written without dashes: {typed}"]
