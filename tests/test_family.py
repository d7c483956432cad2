import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from embedrun import family
from embedrun.commands import doctor
from embedrun.dataset import named

pytestmark = pytest.mark.usefixtures("_alone")


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    family.names.cache_clear()
    family.find.cache_clear()
    yield
    family.names.cache_clear()
    family.find.cache_clear()


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


@pytest.mark.parametrize(
    ("name", "cls"), [("angle", "Angle"), ("in_batch_negatives", "InBatchNegatives"), ("sts", "Sts")]
)
def test_a_name_is_the_class_in_camel_case(name: str, cls: str):
    assert family.class_name(name) == cls


def test_a_member_is_a_file_with_the_class_of_its_name():
    assert family.names("evaluation") == ("geometry", "heldout", "mteb", "retrieval", "senteval", "sts")
    assert {"angle", "cosent", "in_batch_negatives"} <= set(family.names("loss"))
    assert {"nli", "stsb", "toy"} <= set(family.names("dataset"))


def test_the_parts_of_a_family_are_no_members():
    assert not {"mix", "terms", "cosine"} & set(family.names("loss"))
    assert not {"source", "one_pass", "correlation"} & set(family.names("evaluation"))
    assert not {"columns", "records"} & set(family.names("dataset"))


def test_every_name_leads_to_its_class():
    for kind in ("loss", "dataset", "evaluation"):
        for name in family.names(kind):
            assert family.find(kind, name).__name__ == family.class_name(name)


@pytest.mark.parametrize("name", ["nothing", "mix", "../run", "os", "", "embedrun.runs.directory", "Cosent"])
def test_a_name_that_is_no_member_is_not_looked_for(name: str):
    with pytest.raises(KeyError):
        family.find("loss", name)


@pytest.mark.usefixtures("_installed")
def test_an_installed_package_adds_members_and_never_replaces_ours():
    assert family.names("evaluation") == (
        "counting",
        "geometry",
        "heldout",
        "mteb",
        "retrieval",
        "senteval",
        "sts",
    )
    assert family.find("evaluation", "counting").__name__ == "Counter"
    assert family.find("evaluation", "sts").__name__ == "Sts"


BROKEN = {
    "imports": ("import not_there", "ModuleNotFoundError: No module named 'not_there'"),
    "syntax": ("def", "SyntaxError: invalid syntax (plug_syntax.py, line 1)"),
    "exits": ("raise SystemExit(7)", "SystemExit: 7"),
    "lacks": ("", "AttributeError: module 'plug_lacks' has no attribute 'Member'"),
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
        f"({BROKEN[name][1]}); mend or uninstall that package, or leave the name out\n"
    )


@pytest.mark.usefixtures("_broken")
def test_commands_that_do_not_use_it_are_not_affected(embedrun):
    assert "stsb" in named.words()
    assert not {*BROKEN} & {*named.words()}
    assert "exits" in embedrun("train", "--help", "dataset").out
    assert embedrun("data", "list").code == 0


@pytest.mark.usefixtures("_broken")
def test_what_a_package_prints_when_it_is_imported_is_no_result(capsys):
    assert family.find("loss", "prints").__name__ == "Member"
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.usefixtures("_broken")
def test_the_doctor_lists_what_packages_add_and_what_of_it_is_broken():
    found = {one.what: (one.state, one.found) for one in doctor._of_packages()}
    assert found["loss prints"] == ("ok", "plug_prints:Member of the package plugged 1.2")
    state, said = found["dataset exits"]
    assert state == "note"
    assert "plug_exits:Member of the package plugged 1.2 cannot be used (SystemExit: 7)" in said
