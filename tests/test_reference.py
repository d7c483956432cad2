"""What a command takes, read without Hydra and without importing the classes of open families."""

import inspect
from typing import Any, get_type_hints

import pytest
import yaml
from omegaconf import OmegaConf

from embedrun import family, reference
from embedrun.config.check import describe
from embedrun.config.compose import Compositions, register_resolvers
from embedrun.errors import ConfigError

MEMBERS = [(kind, name) for kind in reference.FAMILIES for name in family.names(kind)]


@pytest.mark.parametrize("root", reference.COMMANDS)
def test_the_defaults_are_those_that_hydra_composes(root: str):
    register_resolvers()
    # OmegaConf reads 5e-5 as a number, YAML's own rules do not.
    given = {key: value for key, value in reference.defaults(root).items() if key != "hydra"}
    read = OmegaConf.to_container(OmegaConf.create(yaml.safe_dump(given)), resolve=True)
    assert isinstance(read, dict)
    assert read == {**dict.fromkeys(read), **Compositions().config(root, ())}


def test_a_member_as_it_is_written_has_the_options_of_its_class():
    for kind, name in MEMBERS:
        cls = family.find(kind, name)
        hints = get_type_hints(cls.__init__)
        options = {
            key: (describe(hints.get(key, Any)), parameter.default)
            for key, parameter in inspect.signature(cls.__init__).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and key not in ("dim", "teacher_dims", "head")
        }
        found = reference.member(kind, name)
        read = {one.name.rpartition(".")[2]: (one.accepts, one.default) for one in found.options}
        assert read == options
        assert inspect.getdoc(cls) == found.doc


def test_a_topic_is_shown_in_full():
    for topic, words in [
        ("training", ["choices of training=", "  training.lr=5e-5\n      a number; above 0\n      peak"]),
        ("loss", ["  cosent\n", "loss terms, with options loss.terms.TERM.", "  in_batch_negatives\n"]),
        ("loss.angle", ["embedrun/loss/angle.py", "loss.terms.angle.delta=sum\n      one of sum, phase"]),
        ("dataset.pairs", ["  dataset.path\n      to be given; text"]),
        ("backbone.adapter", ["backbone.adapter.r=16\n"]),
        ("gpu.device", ["decides where"]),
        ("+experiment", ["choices of +experiment=", "  quickstart\n"]),
        ("seed", ["  seed=42\n      a whole number; at least 0 and below 2,147,483,648\n"]),
    ]:
        text = reference.about("train", topic, 80)
        assert [word for word in words if word not in text] == []
        assert max(map(len, text.splitlines())) <= 80


def test_what_a_command_does_not_take_is_refused_with_the_nearest():
    for root, topic, hint in [
        ("train", "trainign", "did you mean 'training'"),
        ("train", "lr", "did you mean 'training.lr'"),
        ("train", "loss.angel", "did you mean 'loss.angle'"),
        (
            "evaluate",
            "loss",
            r"did you mean 'plots'\? \(groups: pooling, dataset, gpu, evaluation, p",
        ),
    ]:
        with pytest.raises(ConfigError, match=f"--help {topic}: no group or option.*{hint}"):
            reference.about(root, topic, 80)
