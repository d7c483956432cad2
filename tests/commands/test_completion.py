import subprocess
from pathlib import Path

from embedrun import cli
from embedrun.commands import completion
from embedrun.commands.completion import answers

# What bash does at the tab key, with the line of the first argument and the command of the second.
_TAB = """
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
COMP_LINE=$1 COMP_POINT=${#1}
_embedrun "$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_commands_groups_choices_and_tables_are_found():
    assert answers("embedrun tra") == ["train"]
    assert set(answers("embedrun ")) == set(cli.COMMANDS)
    assert answers("embedrun train loss=arccse_w") == [
        "loss=arccse_without_arccon",
        "loss=arccse_without_triplet",
    ]
    assert answers("embedrun train po") == ["pooling=", "pooling."]
    assert answers("embedrun train experiment=quick") == ["experiment=quickstart"]
    assert answers("embedrun check +experiment=quick") == ["+experiment=quickstart"]
    assert answers("embedrun table arccse/figure4") == ["arccse/figure4"]
    assert answers("embedrun data a") == ["audit"]
    assert answers("embedrun completion ") == ["bash", "zsh"]
    assert answers("embedrun runs ") == []  # files
    assert answers("embedrun nonsense ") == []


def test_options_are_found_by_group_and_with_their_values():
    assert answers("embedrun train training.l") == ["training.lr="]
    assert answers("embedrun check seed=1 backbone.adapter.d") == [
        "backbone.adapter.dropout=",
        "backbone.adapter.double_quantize=",
    ]
    assert answers("embedrun train pooling.normalize=t") == ["pooling.normalize=true"]
    assert answers("embedrun train backbone.name=") == []  # files
    assert answers("embedrun evaluate training.") == []
    assert "mining.num_negatives=" in answers("embedrun annotate mining.")


def test_bash_shows_what_the_command_answers(tmp_path: Path, interpreter):
    script, command = tmp_path / "embedrun.bash", tmp_path / "embedrun"
    script.write_text(interpreter("completion", "bash").stdout)
    lines = {
        "embedrun train training.schedule=": ["linear", "cosine", "constant"],
        "embedrun runs ": [],
        "embedrun train '$(touch x)' loss=arccse_without_a": ["arccse_without_arccon"],
    }
    for line, shown in lines.items():
        said = "\n".join(answers(line))
        command.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")  # stands for the slow start of Python
        command.chmod(0o755)
        typed = ["bash", "--norc", "-c", f". {script}\n{_TAB}", "bash", line, str(command)]
        ended = subprocess.run(typed, capture_output=True, text=True, timeout=20, cwd=tmp_path)
        assert ended.stderr == ""
        assert ended.stdout.split() == shown
    assert not (tmp_path / "x").exists()


def test_the_script_of_zsh_declares_what_it_completes(capsys):
    assert completion.main(["zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef embedrun\n")
