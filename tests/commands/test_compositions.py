import pytest
from cell_runs import compositions

from embedrun.config import presets
from embedrun.config.compose import Request, composed
from embedrun.errors import ConfigError


@pytest.mark.parametrize(
    ("command", "overrides"),
    [
        ("train", ("+experiment=quickstart", "pooling=max", "training.lr=3e-5", "seed=3", "name=other")),
        ("train", ("+experiment=arccse_bert", "loss.terms.arccon.margin=4", "++loss.terms.arccon.weight=2")),
        ("evaluate", ("model=run:arccse_bert", "evaluation=geometry", "~evaluation.tasks.geometry")),
    ],
)
def test_the_result_is_that_of_composing_it_all(command: str, overrides: tuple[str, ...]):
    assert compositions().config(command, overrides) == composed(Request(command, overrides)).config


def test_a_choice_is_composed_once_and_stays_as_it_was():
    first = compositions().config("train", ("+experiment=quickstart", "training.lr=1"))
    second = compositions().config("train", ("+experiment=quickstart",))
    assert first["training"]["lr"] == 1
    assert second["training"]["lr"] != 1


@pytest.mark.parametrize("override", ["training.lrr=1", "loss=nothing", "a=b=c=", "training.lr=[1"])
def test_what_does_not_compose_is_refused_by_name(override: str):
    with pytest.raises(ConfigError, match="does not compose"):
        compositions().config("train", (override,))


def test_no_preset_makes_an_option_of_the_seed():
    # The tables look for runs of every seed with one composition.
    for path in presets.folder().rglob("*.yaml"):
        assert "{seed}" not in path.read_text(encoding="utf-8"), path
