import pytest

from embedrun.commands.command_line import misplaced, seed_list
from embedrun.errors import ConfigError


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
