import signal
import time
from importlib import import_module

import pytest

from embedrun.cli import COMMANDS, main
from embedrun.errors import ConfigError, DataError, RunFailed, Terminated


@pytest.fixture
def train_that(monkeypatch):
    """Replace the work of `embedrun train` by raising a fault."""

    def replace(fault: BaseException) -> None:
        def work(argv):
            raise fault

        monkeypatch.setattr(import_module("embedrun.commands.train"), "main", work)

    return replace


def test_help_lists_every_command_and_no_command_is_an_error(capsys):
    assert main(["--help"]) == 0
    helped = capsys.readouterr()
    assert main([]) == 2
    assert capsys.readouterr() == helped
    assert helped.err == ""
    for word in COMMANDS:
        assert f"\n  {word} " in helped.out


def test_a_misspelt_command_is_corrected(capsys):
    assert main(["trian"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "'trian'; did you mean 'train'?" in said.err


def test_no_control_character_of_an_argument_reaches_the_terminal(capsys):
    assert main(["\x1b[2J"]) == main(["train", "\x1b]0;title\x07"]) == main(["data", "\u202etxt"]) == 2
    said = capsys.readouterr().err
    assert all(character.isprintable() or character in "\n\ufffd" for character in said)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ConfigError("x: wrong"), 2),
        (DataError("x: missing"), 3),
        (RunFailed("not finite", exit_code=4), 4),
        (OSError(28, "No space left on device"), 5),
        (MemoryError(), 6),
        (RuntimeError("surprise"), 1),
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
    ],
)
def test_each_way_to_fail_has_its_exit_code_and_no_traceback(train_that, fault, code, capsys):
    train_that(fault)
    assert main(["train"]) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert said.strip()


def test_debug_shows_the_traceback_of_an_unexpected_failure(train_that, capsys):
    train_that(RuntimeError("surprise"))
    assert main(["train", "--debug"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "unexpected failure: RuntimeError: surprise" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_every_command_clear_up_and_is_exit_143(number, monkeypatch, tmp_path, capsys):
    def work(argv):
        try:
            signal.raise_signal(number)
        finally:
            half.unlink()

    half = tmp_path / "half"
    half.touch()
    monkeypatch.setattr(import_module("embedrun.commands.doctor"), "main", work)
    assert main(["doctor"]) == 143
    assert capsys.readouterr() == ("", "interrupted\n")
    assert not half.exists()


def test_a_reader_that_leaves_is_no_failure_and_no_word(interpreter):
    # The reader has gone before the first word, as that of `embedrun runs | true`.
    code = (
        "import os, subprocess, sys\n"
        "os.environ.pop('PYTHONUNBUFFERED', None)\n"
        "read, write = os.pipe()\n"
        "os.close(read)\n"
        "for words in (['--help'], ['runs'], ['nonsense']):\n"
        "    for error in (None, subprocess.STDOUT):\n"
        "        command = [sys.executable, '-m', 'embedrun', *words]\n"
        "        print(subprocess.run(command, stdout=write, stderr=error).returncode)"
    )
    ended = interpreter(code=code)
    assert ended.stdout.split() == ["0", "0", "0", "0", "2", "2"], ended.stderr
    assert "Error" not in ended.stderr


def test_help_answers_in_half_a_second(interpreter):
    taken = []
    for _ in range(3):  # the best of three, for other work on the machine must not decide
        started = time.monotonic()
        assert interpreter("--help").returncode == 0
        taken.append(time.monotonic() - started)
    assert min(taken) < 0.5, taken


def test_nothing_that_only_shows_imports_torch(interpreter):
    shown = (
        "import sys\n"
        "from embedrun.cli import COMMANDS, main\n"
        "assert main(['--help']) == 0\n"
        "assert main(['train', '--help']) == main(['train', '--help', 'loss']) == 0\n"
        "assert main(['evaluate', '--help', 'evaluation.sts']) == 0\n"
        "assert 'hydra' not in sys.modules  # half of the time that --help takes without\n"
        "assert not any(main([word, '--help']) for word in COMMANDS)\n"
        "assert main(['completion', 'bash']) == 0\n"
        "assert main(['train', '+experiment=quickstart', '--cfg', 'job']) == 0\n"
        "heavy = {'torch', 'transformers', 'datasets', 'matplotlib', 'scipy', 'pyarrow', 'wandb'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    ended = interpreter(code=shown)
    assert (ended.returncode, ended.stderr) == (0, "[]\n")
