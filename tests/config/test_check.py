"""Plain data against dataclasses and signatures, and the nearest spelling."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from embedrun.config import REQUIRED, Checker, TrainConfig


def plain(**changes: Any) -> dict[str, Any]:
    """A valid configuration, with these dotted options changed (`training__lr=1`)."""
    config: dict[str, Any] = {
        "backbone": {"name": None, "scratch": {}},
        "pooling": {},
        "loss": {"terms": {}},
        "dataset": {"name": "toy"},
        "training": {},
        "gpu": {},
        "evaluation": {"tasks": {}},
        "tracking": {},
    }
    for path, value in changes.items():
        *groups, key = path.split("__")
        place = config
        for group in groups:
            place = place[group]
        place[key] = value
    return config


def problems(**changes: Any) -> list[str]:
    checker = Checker()
    built = checker.build(TrainConfig, plain(**changes))
    assert (built is None) == bool(checker.problems)
    return checker.problems


def built(**changes: Any) -> TrainConfig:
    config = Checker().build(TrainConfig, plain(**changes))
    assert config is not None
    return config


def test_a_valid_configuration_becomes_its_dataclass_with_defaults():
    config = built(training__epochs=3)
    assert config.training.epochs == 3
    assert config.training.batch_size == 32
    assert config.backbone.scratch is not None
    assert config.backbone.scratch.width == 128
    assert config.seed == 42


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        # unknown keys
        ({"backbone__max_len": 64}, "backbone.max_len: unknown key; did you mean 'backbone.max_length'?"),
        ({"lr": 1e-5}, "lr: unknown key; did you mean 'training.lr'?"),
        ({"width": 8}, "width: unknown key; did you mean 'backbone.scratch.width'?"),
        ({"zzz": 1}, "zzz: unknown key"),
        # types
        ({"training__batch_size": True}, "training.batch_size: expected a whole number, got True"),
        ({"training__batch_size": "8"}, "training.batch_size: expected a whole number, got '8'"),
        ({"training__lr": "fast"}, "training.lr: expected a number, got 'fast'"),
        ({"name": 5}, "name: expected text, got 5"),
        ({"gpu__deterministic": 1}, "gpu.deterministic: expected true or false, got 1"),
        ({"dataset": "toy"}, "dataset: expected a mapping, got 'toy'"),
        ({"pooling__first_layer": True}, "pooling.first_layer: expected one of 0, 1 or null, got True"),
        # bounds
        ({"training__lr": 0}, "training.lr: must be above 0, got 0.0"),
        ({"dataset__train_rows": 2**31}, "dataset.train_rows: must be at most 2147483647, got 2147483648"),
        ({"training__lr": float("nan")}, "training.lr: expected a finite number, got nan"),
        ({"training__warmup_ratio": -0.5}, "training.warmup_ratio: must be at least 0, got -0.5"),
        ({"training__clip": 0.0}, "training.clip: must be above 0, got 0.0"),
        ({"backbone__scratch__dropout": 1}, "backbone.scratch.dropout: must be below 1, got 1.0"),
        # missing values
        ({"backbone__name": REQUIRED}, "backbone.name: no value given; pass backbone.name=..."),
        # choices
        (
            {"training__schedule": "liner"},
            "training.schedule: expected one of linear, cosine, constant, got 'liner'; "
            "did you mean 'linear'?",
        ),
    ],
)  # fmt: skip
def test_one_fault_gives_one_line(changes: dict[str, Any], problem: str):
    assert problems(**changes) == [problem]


def test_all_faults_are_reported_together():
    assert len(problems(training__lr="x", training__epochs=-1, gpu__devise="cpu", seed=1.5, nam="x")) == 5


def test_a_whole_number_is_a_number_and_becomes_one():
    value = built(training__lr=1).training.lr
    assert value == 1
    assert type(value) is float


@dataclass
class Several:
    names: list[Literal["a", "b"]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)


def test_faults_inside_lists_and_mappings_say_where():
    checker = Checker()
    checker.build(Several, {"names": ["a", "c"], "sizes": {"x": 1, "y": "2"}})
    assert checker.problems == [
        "names[1]: expected one of a, b, got 'c'",
        "sizes.y: expected a whole number, got '2'",
    ]


class Term:
    """What a YAML may name."""

    def __init__(
        self, *, temperature: float, side: Literal["one", "two"] = "one", sets: list[int] | None = None
    ) -> None: ...


class Bare:
    """Has no constructor of its own."""


@pytest.mark.parametrize(
    ("cls", "options", "expected"),
    [
        (Term, {"temperature": 1}, []),
        (Term, {"temperature": 0.1, "side": "two", "sets": [1]}, []),
        (Term, {}, ["t.temperature: no value given; pass t.temperature=..."]),
        (
            Term,
            {"temperature": 1, "temprature": 2},
            [
                "t.temprature: Term has no such option; did you mean 'temperature'? "
                "(it has: temperature, side, sets)"
            ],
        ),
        (
            Term,
            {"temperature": 1, "side": "tow"},
            ["t.side: expected one of one, two, got 'tow'; did you mean 'two'?"],
        ),
        (Term, {"temperature": 1, "sets": [1, 2.5]}, ["t.sets[1]: expected a whole number, got 2.5"]),
        (Bare, {"x": 1}, ["t.x: Bare has no such option (it has: none)"]),
    ],
)
def test_options_are_held_against_the_constructor(cls: type, options: dict[Any, Any], expected: list[str]):
    checker = Checker()
    checker.signature(cls, options, "t")
    assert checker.problems == expected
