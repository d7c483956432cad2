"""What other tools call our options leads on to what is typed here."""

import pytest

from embedrun.config import Checker
from embedrun.config.check import SYNONYMS, meant, options_of
from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.reference import COMMANDS

TRAIN, EVALUATE = (list(options_of(COMMANDS[command])) for command in ("train", "evaluate"))
NAMES = sorted({name for names in SYNONYMS.values() for name in names})


@pytest.mark.parametrize(
    ("key", "train", "evaluate"),
    [
        ("learning_rate", "training.lr", None),
        ("max_seq_length", "backbone.max_length", "max_length"),
        ("model", "backbone.name", None),
        ("model_name_or_path", "backbone.name", "model"),
        ("fp16", "gpu.precision=fp16", "gpu.precision=fp16"),
        ("output_dir", "hydra.run.dir=DIR", "hydra.run.dir=DIR"),
        ("report_to", "tracking=wandb", None),
        ("train_file", "dataset=pairs dataset.path=FILE", "dataset=pairs dataset.path=FILE"),
        ("nonsense", None, None),
    ],
)
def test_a_name_of_another_tool_is_what_a_command_has_of_it(key, train, evaluate):
    assert (meant(key, TRAIN), meant(key, EVALUATE)) == (train, evaluate)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_every_hint_composes_when_it_is_typed(command):
    paths = TRAIN if command == "train" else EVALUATE
    hints = {hint for name in NAMES if (hint := meant(name, paths)) is not None}
    words = sorted({word for hint in hints for word in hint.split()}, key=lambda word: "." in word)
    typed = [word if "=" in word else f"{word}=1" for word in words]
    checker = Checker()
    checker.build(COMMANDS[command], composed(Request(command, tuple(typed))).config)
    assert not [problem for problem in checker.problems if "unknown key" in problem]
    with_value = [word.partition("=")[0] for word in words if "=" in word]
    assert not [problem for problem in checker.problems if problem.partition(":")[0] in with_value]
