from pathlib import Path

import pytest

from embedrun.config.compose import Composed, Request
from embedrun.errors import IN_USE, ConfigError, EmbedrunError
from embedrun.launch.sweep import SweepPlace


def place(parent: str | None) -> SweepPlace:
    job = Composed(config={"name": "x"}, overrides=(), multirun=True, sweep={}, directory=None, parent=parent)
    return SweepPlace(Request("train", ()), [job], leaves_runs=True)


def test_two_multiruns_do_not_write_into_one_folder_at_once():
    with place("a").held() as folder:
        (folder / "sweep.json").touch()
        with pytest.raises(EmbedrunError, match="a: another multirun is writing into it; wait") as caught:
            place("a").held().__enter__()
    assert caught.value.exit_code == IN_USE
    with place("a").held() as again:
        assert (again / "sweep.json").exists()


def test_a_folder_in_which_nothing_had_begun_is_free():
    with place("a").held():
        pass
    place("a").check()
    (Path("a") / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="a exists; name one that does not"):
        place("a").check()


def test_without_a_folder_of_the_users_each_has_one_of_its_own():
    with place(None).held() as one, place(None).held() as other:
        assert one != other
        assert one.parent == other.parent
