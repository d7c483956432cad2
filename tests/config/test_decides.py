"""What an option decides, and the part of a configuration that decides something."""

from itertools import combinations

import pytest

from embedrun.config.decides import decides, decisive
from embedrun.config.mixture import alone
from embedrun.config.options import COMMANDS, declared

CONFIG = {
    "name": "first",
    "tracking": {"log_every": 10},
    "gpu": {"device": "cpu", "precision": "fp32", "rendezvous": None},
    "training": {"lr": 1e-4, "resume": "auto"},
}


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("training.lr", "what"),
        ("seed", "what"),
        ("gpu.precision", "how"),
        ("gpu.device", "where"),
        ("name", "nothing"),
        ("training.resume", "nothing"),
    ],
)
def test_an_option_says_what_it_decides(option: str, word: str):
    assert decides(option) == word


def test_commands_agree_on_the_options_that_they_share():
    # A configuration does not say of which command it is.
    for one, other in combinations(COMMANDS.values(), 2):
        first, second = (
            {path: item.metadata["decides"] for path, item in declared(command)} for command in (one, other)
        )
        shared = first.keys() & second.keys()
        assert {path: first[path] for path in shared} == {path: second[path] for path in shared}


def test_what_decides_less_than_is_asked_for_is_left_out():
    training = {"lr": 1e-4}
    assert decisive(CONFIG) == {"gpu": {"device": "cpu", "precision": "fp32"}, "training": training}
    assert decisive(CONFIG, least="how") == {"gpu": {"precision": "fp32"}, "training": training}
    assert decisive(CONFIG, least="what") == {"gpu": {}, "training": training}
    assert decisive(CONFIG, least="nothing") == CONFIG


SETS = {
    "own": {"name": "pairs", "path": "a.tsv", "dev": None},
    "with dev": {"name": "pairs", "path": "a.tsv", "dev": "d.tsv"},
    "divided": {"name": "pairs", "path": "a.tsv", "split": {"train": 0.9, "dev": 0.1}},
    "of the hub": {
        "name": "triplets",
        "path": "hf://datasets/o/n",
        "splits": {"train": "train", "dev": "dev"},
    },
    "public": {"name": "nli", "form": "pair"},
}


@pytest.mark.parametrize(
    ("data", "as_before"),
    [("own", "stsb"), ("with dev", "auto"), ("divided", "auto"), ("of the hub", "auto"), ("public", "auto")],
)
def test_what_selects_decides_only_where_it_is_not_what_held_before(data, as_before):
    # The own dev split, else that of STS-B.
    before = {"dataset": SETS[data], "training": {"lr": 1e-4}}
    for rule in ("auto", "stsb", "none"):
        now = {"dataset": SETS[data], "training": {"lr": 1e-4, "dev": rule}}
        assert (decisive(now) == decisive(before)) == (rule == as_before)


def test_options_that_came_later_leave_the_identity_of_a_run_alone_until_they_are_used():
    own = {"name": "pairs", "path": "a.tsv", "on_bad_row": "refuse"}
    later = {
        "separator": None,
        "config": None,
        "revision": None,
        "splits": None,
        "split": None,
        "split_by": "group",
        "split_seed": 42,
        "score_range": None,
    }
    assert decisive({"dataset": {**own, **later}}) == {"dataset": own}
    for name, value in (
        ("separator", ";"),
        ("split_seed", 1),
        ("score_range", [1, 5]),
        ("split", {"train": 1.0}),
    ):
        assert decisive({"dataset": {**own, **later, name: value}}) == {"dataset": {**own, name: value}}
    trained = {"loss": {"terms": {"cosent": {}}}, "evaluation": {"tasks": {}}, "training": {"lr": 1e-4}}
    now = {
        "loss": {**trained["loss"], "matryoshka": None},
        "evaluation": {"tasks": {}, "dims": None},
        "training": {"lr": 1e-4, "select_untrained": False},
    }
    assert decisive(now) == decisive(trained)
    assert decisive({**now, "training": {"lr": 1e-4, "select_untrained": True}}) != decisive(trained)
    assert decisive({**now, "evaluation": {"tasks": {}, "dims": [8]}}) != decisive(trained)
    scored = {"model": "m", "dataset": {"name": "nli_scored"}, "backbone": {"name": "m"}}
    added = {
        "whiten": None,
        "dataset": {"name": "nli_scored", "column": "score"},
        "backbone": {"name": "m", "bidirectional": False},
    }
    assert decisive({**scored, **added}) == decisive(scored)
    for change in (
        {"whiten": {"dataset": "nli"}},
        {"dataset": {"name": "nli_scored", "column": "similarity"}},
    ):
        assert decisive({**scored, **added, **change}) != decisive(scored)
    for other in ({"dataset": {"name": "of_a_package", **later}}, {"newer": {**own, **later}}):
        assert decisive(other) == other


def test_cuts_of_a_run_hold_for_each_part_of_a_mixture_that_has_none_of_its_own():
    parts = {"one": {"loss": {"terms": {}}}, "two": {"loss": {"terms": {}, "matryoshka": {"dims": [4]}}}}
    config = {"dataset": {"name": "mix", "parts": parts}, "loss": {"terms": {}, "matryoshka": {"dims": [8]}}}
    assert {name: part["loss"]["matryoshka"]["dims"] for name, part in alone(config)} == {
        "one": [8],
        "two": [4],
    }
