from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from embedrun import family


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
