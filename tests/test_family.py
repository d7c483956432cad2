import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from embedrun import family

pytestmark = pytest.mark.usefixtures("_alone")


def forget() -> None:
    """As a new process knows nothing."""
    for known in (family.names, family.find, family.tree, family._code, family._code_of_ours):
        known.cache_clear()


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that offers an evaluation task `counting`, and another under the name of ours."""
    points = [
        EntryPoint("counting", "collections:Counter", "embedrun.evaluation"),
        EntryPoint("sts", "collections:OrderedDict", "embedrun.evaluation"),
    ]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [point for point in points if point.group == group and name in (None, point.name)]

    monkeypatch.setattr(family, "entry_points", entry_points)


def test_a_member_is_a_file_with_the_class_of_its_name():
    assert family.names("evaluation") == ("geometry", "heldout", "ir", "mteb", "retrieval", "senteval", "sts")
    assert {"angle", "cosent", "in_batch_negatives"} <= set(family.names("loss"))
    assert {"nli", "stsb", "toy"} <= set(family.names("dataset"))


def test_a_name_that_is_no_member_is_not_looked_for():
    for name in ("nothing", "mix", "terms", "../run", "os", "", "embedrun.runs.directory", "Cosent"):
        with pytest.raises(KeyError):
            family.find("loss", name)


@pytest.mark.usefixtures("_installed")
def test_an_installed_package_adds_members_and_never_replaces_ours():
    assert family.names("evaluation") == (
        "counting",
        "geometry",
        "heldout",
        "ir",
        "mteb",
        "retrieval",
        "senteval",
        "sts",
    )
    assert family.find("evaluation", "counting").__name__ == "Counter"
    assert family.find("evaluation", "sts").__name__ == "Sts"


BROKEN = {
    "syntax": ("def", "SyntaxError: invalid syntax (plug_syntax.py, line 1)"),
    "exits": ("raise SystemExit(7)", "SystemExit: 7"),
    "function": ("def Member(): ...", "it is no class but function"),
}


@pytest.fixture
def _broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package that offers, in every family, members that cannot be had, and one that prints."""
    codes = {name: code for name, (code, _) in BROKEN.items()}
    for name, code in {**codes, "prints": "print('hello'); class Member: ..."}.items():
        monkeypatch.delitem(sys.modules, f"plug_{name}", raising=False)
        (tmp_path / f"plug_{name}.py").write_text(code.replace("; ", "\n") + "\n")
    (tmp_path / "plugged-1.2.dist-info").mkdir()
    (tmp_path / "plugged-1.2.dist-info/METADATA").write_text("Name: plugged\nVersion: 1.2\n")
    points = [
        f"[embedrun.{kind}]\n" + "".join(f"{name} = plug_{name}:Member\n" for name in (*codes, "prints"))
        for kind in ("loss", "dataset", "evaluation")
    ]
    (tmp_path / "plugged-1.2.dist-info/entry_points.txt").write_text("".join(points))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize(("kind", "place"), [("loss", "loss.terms"), ("evaluation", "evaluation.tasks")])
def test_a_member_that_cannot_be_had_is_one_message_with_its_package(refused, options, kind, place, name):
    said = refused("train", *options, f"+{place}.{name}={{}}")
    assert said.startswith("config has 1 problem:\n")
    assert said.endswith(
        f"embedrun.{kind}: {name} = plug_{name}:Member of the package plugged 1.2 cannot be used "
        f"({BROKEN[name][1]}); fix or uninstall that package, or leave the name out\n"
    )


MINE: dict[str, Any] = {
    "loss": {"terms": {"a": {"name": "focal"}, "cosent": {}, "angle": {"weight": 0}}},
    "dataset": {"name": "own_rows", "path": "x"},
    "training": {"dev_tasks": {"own_task": {}, "sts": {}}},
    "evaluation": None,
}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A source folder whose package offers a loss, a data set and a task, and fails if it is imported."""
    (tmp_path / "focal_pkg/inner").mkdir(parents=True)
    (tmp_path / "focal_pkg/__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "focal_pkg/inner/helper.py").write_text("scale = 1\n")
    info = tmp_path / "focal-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: focal\nVersion: 1.0\n")
    offers = {"loss": "focal", "dataset": "own_rows", "evaluation": "own_task"}
    text = "".join(f"[embedrun.{kind}]\n{name} = focal_pkg.a:B\n" for kind, name in offers.items())
    (info / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def code() -> dict[str, str]:
    forget()
    return family.code_of(MINE)


def test_the_code_of_what_a_source_folder_offers_is_all_of_its_package(package: Path):
    before = code()
    offered = ["code dataset own_rows", "code evaluation own_task", "code loss focal"]
    assert sorted(before) == sorted([*offered, "code loss cosent"])  # angle has no weight, sts is ours
    (package / "focal_pkg/inner/helper.py").write_text("scale = 2\n")
    assert {name for name, mark in code().items() if mark != before[name]} == {*offered}
    (package / "focal_pkg/inner/helper.py").write_text("scale = 1\n")
    (package / "other.py").write_text("")
    assert code() == before


def test_the_code_of_our_terms_is_what_they_compute_in_all_their_files(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(family, "_ROOT", tmp_path)
    (tmp_path / "loss").mkdir()
    term = 'from embedrun.loss.helper import two\nclass Cosent:\n    "Text."\n    x = two\n'

    def marked(term: str, helper: str = "two = 2\n") -> str:
        (tmp_path / "loss/cosent.py").write_text(term)
        (tmp_path / "loss/helper.py").write_text(helper)
        return code()["code loss cosent"]

    before = marked(term)
    assert marked('"A head."\n\n' + term.replace('    "Text."\n', "    # why\n")) == before
    assert len({before, marked(term.replace("x =", "y =")), marked(term, "two = 3\n")}) == 3
