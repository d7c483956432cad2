import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.config import composition, kept, presets
from embedrun.config.compose import Compositions, composed
from embedrun.config.request import Request
from embedrun.errors import ConfigError

TYPED = ("+experiment=quickstart", "training.lr=0.0003", "seed=7")


class ComposedAgain(BaseException):
    """No fault that anybody words anew."""


def in_a_new_process() -> None:
    """Nothing is remembered of the presets but in the cache folder."""
    for remembered in (kept.basis_of, presets._own_groups, composition._read, composition._chosen):
        remembered.cache_clear()


@pytest.fixture(autouse=True)
def _empty(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    in_a_new_process()
    yield
    in_a_new_process()


@pytest.fixture
def conf(tmp_path, monkeypatch) -> Path:
    """A copy of the presets, to be changed."""
    shutil.copytree(presets.folder(), tmp_path / "conf")
    monkeypatch.setattr(presets, "folder", lambda: tmp_path / "conf")
    return tmp_path / "conf"


@pytest.fixture
def without_hydra(monkeypatch) -> Callable[[], None]:
    """After it is called, nothing composes."""

    def refuse(*_: object, **__: object) -> None:
        raise ComposedAgain

    return lambda: monkeypatch.setattr(composition, "_full", refuse)


def entries() -> list[Path]:
    return sorted(kept.folder().glob("*/*.json"))


def test_a_configuration_is_composed_once(without_hydra):
    first = composed(Request("train", TYPED))
    config, choices = (getattr(Compositions(), name)("train", TYPED) for name in ("config", "choices"))
    without_hydra()
    assert composed(Request("check", TYPED)) == first  # the same root
    assert isinstance(first.overrides, tuple)
    assert isinstance(composed(Request("check", TYPED)).added, tuple)
    assert Compositions().config("train", TYPED) == config
    assert Compositions().choices("train", TYPED) == choices
    assert list(Compositions().config("train", TYPED)) == list(config)  # in their order
    with pytest.raises(ComposedAgain):
        composed(Request("train", (*TYPED, "loss=cosent")))


def test_jobs_and_strictness_are_told_apart(without_hydra):
    composed(Request("train", TYPED))
    without_hydra()
    for other in ({"job": 1}, {"strict": True}):
        with pytest.raises(ComposedAgain):
            composed(Request("train", TYPED), **other)


def test_what_is_returned_may_be_changed():
    Compositions().config("train", TYPED)
    found = Compositions().config("train", TYPED)
    found["training"]["lr"] = 1.0
    assert Compositions().config("train", TYPED)["training"]["lr"] == 0.0003


def test_a_changed_preset_is_seen(conf):
    assert Compositions().config("train", TYPED)["training"]["batch_size"] == 32
    assert composed(Request("train", TYPED)).config["training"]["batch_size"] == 32
    path = conf / "experiment" / "quickstart.yaml"
    state = path.stat()
    path.write_text(path.read_text().replace("batch_size: 32", "batch_size: 31"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # same size and times
    assert (
        composed(Request("train", (*TYPED, "seed=8"))).config["training"]["batch_size"] == 32
    )  # in this one
    in_a_new_process()
    assert Compositions().config("train", TYPED)["training"]["batch_size"] == 31
    assert composed(Request("train", TYPED)).config["training"]["batch_size"] == 31


@pytest.mark.parametrize("name", ["__version__", "version", "_code"])
def test_another_version_is_seen(name: str, without_hydra, monkeypatch, tmp_path):
    Compositions().config("train", TYPED)
    without_hydra()
    if name == "__version__":
        monkeypatch.setattr(kept, name, "0.0.1")
    elif name == "version":
        monkeypatch.setattr(kept, name, lambda package: f"{package} 0.0.1")
    else:  # of the code that composes
        (tmp_path / "composition.py").write_text("")
        monkeypatch.setattr(kept, "__file__", str(tmp_path / "kept.py"))
    in_a_new_process()
    with pytest.raises(ComposedAgain):
        Compositions().config("train", TYPED)


def _cut(path: Path) -> None:
    path.write_text(path.read_text()[:-10])


def _another_value(path: Path) -> None:
    words, text, mark = json.loads(path.read_text())
    path.write_text(json.dumps([words, text.replace("0.0003", "0.0004"), mark]))


def _another_request(path: Path) -> None:
    words, text, mark = json.loads(path.read_text())
    path.write_text(json.dumps([words.replace("seed=7", "seed=8"), text, mark]))


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        _another_value,
        _another_request,
        lambda path: path.write_bytes(b"\xff\x00"),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text("{}"),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_damage_costs_time_alone(damage: Callable[[Path], None]):
    expected = Compositions().config("train", TYPED)
    (path,) = entries()
    damage(path)
    assert Compositions().config("train", TYPED) == expected


def test_without_a_cache_everything_is_composed(monkeypatch, tmp_path):
    expected = Compositions().config("train", TYPED)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert Compositions().config("train", TYPED) == expected


def test_faults_are_not_kept():
    for _ in range(2):
        with pytest.raises(ConfigError, match="does not compose"):
            Compositions().config("train", ("loss=nothing",))
        with pytest.raises(ConfigError, match="no such choice"):
            composed(Request("train", ("loss=nothing",)))
    assert entries() == []


@pytest.mark.parametrize("override", ["name=${oc.env:HOME}", "name=${now:%f}", "hydra.run.dir=x"])
def test_what_the_presets_do_not_decide_alone_is_not_kept(override: str):
    composed(Request("train", (*TYPED, override)))
    assert entries() == []


def test_a_preset_that_reads_a_clock_is_never_kept(conf):
    (conf / "experiment" / "mine.yaml").write_text("# @package _global_\nname: ${now:%f}\n")
    Compositions().config("train", TYPED)
    assert entries() == []


def test_presets_of_a_users_own_are_not_kept(tmp_path):
    (tmp_path / "own" / "loss").mkdir(parents=True)
    composed(Request("train", TYPED, config_dir=tmp_path / "own"))
    assert entries() == []


def test_numbers_as_keys_are_not_kept_as_words():
    found = kept.Kept()
    for _ in range(2):
        assert found.made({"asked": 1}, lambda: {1: "one"}) == {1: "one"}
        assert found.made({"asked": 2}, lambda: {"a": float("nan")}).keys() == {"a"}
    assert entries() == []


def test_what_nobody_has_used_for_a_month_goes():
    for name, age in (("old", 31), ("new", 29)):
        (kept.folder() / name).mkdir(parents=True)
        then = (kept.folder() / name).stat().st_mtime - age * 86_400
        os.utime(kept.folder() / name, (then, then))
    Compositions().config("train", TYPED)
    assert not (kept.folder() / "old").exists()
    assert (kept.folder() / "new").exists()
