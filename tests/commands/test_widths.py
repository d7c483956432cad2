"""What is printed fits the terminal, without a word broken; a pipe gets each message in one line."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.usefixtures("_no_timing"), pytest.mark.parametrize("width", [80, 120])]
MODEL = "a-model-folder-whose-notice-is-longer-than-a-line-of-a-terminal"
COPIED = ("model ", "report ", "next ")  # lines that end a run: paths and a command, whole
Printed = Callable[..., tuple[str, str]]


@pytest.fixture
def printed(embedrun, monkeypatch, width) -> Printed:
    """What a command prints on a terminal, which fits it, and what it prints into a pipe."""

    def run(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
        outputs = []
        for terminal in (False, True):
            with monkeypatch.context() as patch:
                patch.setenv("COLUMNS", str(width))
                patch.setenv("EMBEDRUN_QUIET", "1")  # no bar
                for stream in (sys.stdout, sys.stderr):
                    patch.setattr(stream, "isatty", lambda is_one=terminal: is_one, raising=False)
                ended = embedrun(*arguments)
            assert ended.code == code, ended.err
            outputs.append(ended.out + ended.err)
        piped, shown = outputs
        wide = [line for line in shown.splitlines() if len(line) > width]
        assert not [line for line in wide if len(line.split()) > 1 and not line.startswith(COPIED)]
        return shown, piped

    return run


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "command",
    [("data", "list"), ("doctor",), ("check", "+experiment=quickstart")],
    ids=" ".join,
)
def test_what_is_there_and_what_a_run_would_do_fit(printed, command):
    shown, piped = printed(*command)
    assert {*piped.splitlines()[-1].split()} <= {*shown.split()}  # a cell may go below its row


def test_an_error_fits_and_is_one_line_in_a_pipe(printed, width):
    shown, piped = printed("train", "+experiment=quickstrt", code=2)
    head, error = piped.splitlines()
    assert len(error) > 500  # every experiment is named
    first, *more = shown.splitlines()[1:]
    assert shown.splitlines()[0] == head
    assert one_line(shown) == one_line(piped)
    assert len(first) > width - 30
    assert all(line.startswith("    ") for line in more)


def test_notices_and_the_lines_of_a_start_and_an_end_fit(printed, tiny, options):
    mine = Path(shutil.copytree(tiny.path / "model", MODEL))
    says = {"schema": 2, "pooling": "mean", "first_layer": None, "normalize": None, "max_length": None}
    (mine / "embedrun.json").write_text(json.dumps(says | {"lowercase": False}))
    (mine / "manifest.json").unlink()
    scratch = [one for one in options if not one.startswith("backbone.")]
    shown, piped = printed(
        "train", *scratch, "backbone=bert_base", f"backbone.name={MODEL}", "pooling=cls", "gpu=cpu"
    )
    (notice,) = [line for line in piped.splitlines() if " declares mean pooling" in line]
    assert notice not in shown
    assert notice in one_line(shown)
    logs = [file.read_text() for file in Path("outputs").glob("*/*/run.log")]
    assert [notice in log for log in logs] == [True, True]
