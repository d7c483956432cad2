"""The flags that many commands share, and lists of seeds."""

from pathlib import Path

import pytest

from embedrun.commands.command_line import ComposingParser, misplaced, seed_list
from embedrun.config.request import Request
from embedrun.errors import ConfigError


def request(*argv: str, command: str = "train") -> Request:
    root = "train" if command == "check" else None
    parsed = ComposingParser(command, "What it does.", (), root=root).request(argv)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_an_experiment_is_added_whatever_its_sign(sign):
    assert request(f"{sign}experiment=a,b", "seed=1").overrides == ("+experiment=a,b", "seed=1")


def test_other_overrides_stay_as_they_are():
    given = ("++seed=1", "+x=2", "~loss", "name=experiment=1", "experiments=1")
    assert request(*given).overrides == given


def test_flags_may_stand_between_overrides():
    parsed = request("seed=1", "-m", "name=x", "--cfg", "job", "--resolve", "training.lr=-1")
    assert parsed == Request(
        command="train",
        overrides=("seed=1", "name=x", "training.lr=-1"),
        multirun=True,
        show=("--cfg", "job", "--resolve"),
    )


def test_info_may_stand_alone_or_with_a_part():
    assert request("seed=1", "--info").show == ("--info", "all")
    assert request("--info", "defaults", "seed=1").show == ("--info", "defaults")


def test_check_composes_what_train_would():
    assert request(command="check").root == "train"
    assert request(command="evaluate").root == "evaluate"


def test_the_folder_of_own_files_is_made_absolute():
    Path("mine").mkdir()
    assert request("--config-dir", "mine").config_dir == Path.cwd() / "mine"
    assert request("-cd", "mine").config_dir == Path.cwd() / "mine"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--cfg", "jobs"], "invalid choice: 'jobs'"),
        (["--config-dir", "nowhere"], "--config-dir: no folder 'nowhere'"),
    ],
)
def test_an_unknown_value_of_a_flag_is_refused(argv, words):
    with pytest.raises(ConfigError, match=words):
        request(*argv)


def test_seeds_are_whole_numbers_in_the_order_given():
    assert seed_list("3, 1,2", "table") == (3, 1, 2)
    assert seed_list(None, "table") is None


@pytest.mark.parametrize("text", ["", "1,", "1,1", "-1", "1.5", "x", "\N{SUPERSCRIPT TWO}"])
def test_anything_else_is_refused(text: str):
    with pytest.raises(ConfigError, match="embedrun reproduce: --seeds: expected different whole numbers"):
        seed_list(text, "reproduce")


def test_a_seed_or_a_setting_among_the_overrides_has_an_option_of_its_own():
    assert misplaced(["+seed=7", "scale=cpu_small", "training.lr=1"], "reproduce") == [
        "seed: embedrun reproduce takes --seeds 1,2,3",
        "scale: embedrun reproduce takes --scale NAME",
    ]


@pytest.mark.parametrize(
    ("argv", "typed"),
    [
        (["--max_steps", "10"], "training.max_steps=10"),
        (["--max-steps=10"], "training.max_steps=10"),
        (["--lr=1e-5", "seed=1"], "training.lr=1e-5"),
        (["--training.lr", "1e-5"], "training.lr=1e-5"),
        (["--learning_rate", "seed=1"], "training.lr=..."),
        (["--experiment", "quickstart"], "experiment=quickstart"),
        (["--fp16"], "gpu.precision=fp16"),
    ],
)
def test_an_option_that_is_written_as_a_flag_is_shown_as_it_is_written_here(argv, typed):
    with pytest.raises(ConfigError) as caught:
        request(*argv)
    flag = argv[0].partition("=")[0]
    assert caught.value.problems == [f"{flag}: an option is written without dashes: {typed}"]


def test_every_command_that_takes_overrides_says_so(refused):
    for line in ("tune --lr 1 --trials 2", "reproduce angle/table4 --lr 1"):
        assert "--lr: an option is written without dashes: training.lr=1" in refused(*line.split())
