import subprocess
from pathlib import Path

import pytest

from embedrun import cli
from embedrun.commands import completion
from embedrun.config import presets
from embedrun.config.safety import LAUNCHERS
from embedrun.errors import ConfigError

# What bash does at the tab key, with the line of the first argument.
_TAB = """
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
COMP_LINE=$1 COMP_POINT=${#1}
_embedrun
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def tab(tmp_path: Path):
    """The answers of bash to a line."""
    file = tmp_path / "embedrun.bash"
    file.write_text(completion.script("bash"))

    def press(line: str) -> list[str]:
        command = ["bash", "--norc", "-c", f". {file}\n{_TAB}", "bash", line]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
        assert ended.stderr == ""
        return ended.stdout.split()

    return press


def test_the_tab_key_finds_commands_groups_choices_and_tables(tab):
    assert tab("embedrun tra") == ["train"]
    assert {"train", "table", "check", "runs"} <= set(tab("embedrun "))
    assert tab("embedrun train loss=arccse_w") == ["arccse_without_arccon", "arccse_without_triplet"]
    assert tab("embedrun check +experiment=quick") == ["quickstart"]
    assert tab("embedrun train po") == ["pooling.", "pooling="]
    assert "+experiment=" in tab("embedrun train seed=1 ")
    assert tab("embedrun table arccse/figure4") == ["arccse/figure4"]
    assert tab("embedrun data a") == ["audit"]
    assert tab("embedrun runs ") == []  # files
    assert tab("embedrun runs --d") == ["--diff", "--draws", "--debug"]
    assert "--trials" in tab("embedrun tune +experiment=quickstart --")
    assert tab("embedrun train exp") == ["experiment="]
    assert tab("embedrun train experiment=quick") == ["quickstart"]
    assert tab("embedrun reproduce angle/table4 hydra/launcher=j") == ["joblib"]


def test_the_tab_key_finds_options_by_group_and_their_values(tab):
    assert tab("embedrun train tra") == ["tracking.", "tracking=", "training.", "training="]
    assert tab("embedrun train training.l") == ["training.lr="]
    assert tab("embedrun check seed=1 backbone.adapter.d") == [
        "backbone.adapter.double_quantize=",
        "backbone.adapter.dropout=",
    ]
    assert tab("embedrun train training.schedule=") == ["linear", "cosine", "constant"]
    assert tab("embedrun train pooling.normalize=t") == ["true"]
    assert tab("embedrun train backbone.name=") == []  # files
    assert tab("embedrun evaluate mo") == ["model="]
    assert tab("embedrun evaluate training.") == []
    assert "mining.num_negatives=" in tab("embedrun annotate mining.")


def test_the_tab_key_finds_the_values_of_flags(tab):
    assert tab("embedrun table angle/table4 --format ") == ["md", "csv", "latex", "json"]
    assert tab("embedrun table --format=la") == ["latex"]
    assert tab("embedrun reproduce angle/table4 --scale ") == presets.groups()["scale"]
    assert tab("embedrun train --cfg j") == ["job"]
    assert tab("embedrun train --help tr") == ["training", "tracking"]
    assert tab("embedrun table -o ") == []  # files
    assert tab("embedrun reproduce --only ") == []
    assert "train" not in tab("embedrun train --again ")  # it takes no value
    assert "loss=" in tab("embedrun train --again ")


def test_every_command_has_its_words():
    assert set(cli.COMMANDS) == set(completion.flags())
    assert set(completion.words()) <= set(cli.COMMANDS)


def test_every_command_takes_debug(capsys):
    assert cli.main(["completion", "bash", "--debug"]) == 0


def test_every_choice_of_a_run_is_among_its_words():
    found = completion.words()
    groups = presets.groups()
    for group in ("backbone", "pooling", "loss", "dataset", "training", "gpu", "evaluation", "tracking"):
        assert {f"{group}={choice}" for choice in groups[group]} <= set(found["train"])
    for sign in ("", "+"):  # the command line takes both
        assert {f"{sign}experiment={name}" for name in groups["experiment"]} <= set(found["tune"])
    assert not [word for word in found["evaluate"] if word.startswith(("loss=", "+experiment="))]
    assert {f"hydra/launcher={name}" for name in LAUNCHERS} <= set(found["reproduce"]) & set(found["train"])
    assert "hydra/launcher=joblib" not in found["tune"]
    assert "angle/table4" in found["reproduce"]


def test_a_name_that_a_shell_would_run_is_left_out(tmp_path: Path):
    (tmp_path / "loss").mkdir()
    for name in ("$(touch x)", "a'b", "fine"):
        (tmp_path / "loss" / f"{name}.yaml").touch()
    (tmp_path / "train.yaml").write_text(
        "defaults:\n  - loss: fine\n  - override hydra/launcher: basic\n  - _self_\n"
    )
    assert [word for word in completion.words(tmp_path)["check"] if "." not in word.partition("=")[0]] == [
        "loss=fine",
        *("seed=", "name=", "data_dir=", "scale="),
    ]


def test_the_script_of_zsh_declares_what_it_completes(capsys):
    assert completion.main(["zsh"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("#compdef embedrun\n")
    assert "loss=angle" in out


def test_another_shell_is_refused():
    with pytest.raises(ConfigError, match="'fish'"):
        completion.main(["fish"])
