"""One job of a multirun in a process of its own, so that no job can end another.

The parent sends the resolved configuration as JSON on standard input and reads the outcome from a
file that it names; nothing is composed twice.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from embedrun.commands.outcome import Outcome
from embedrun.console import say
from embedrun.errors import Terminated, exit_code, explain
from embedrun.run import write_atomically

_MODULE = "embedrun.commands.job"


def run_in_child(
    command: str, config: Mapping[str, Any], overrides: list[str], directory: str | None, outcome: Path
) -> Outcome:
    """Start a job, wait for it, and say how it ended; a job that died without a word has failed.

    Args:
        command: `train` or `evaluate`.
        config: resolved plain data.
        overrides: what the user changed.
        directory: the run directory, where the user named one.
        outcome: file that the job writes.

    Raises:
        KeyboardInterrupt: on a signal, once the job has saved and ended. A terminal sends Ctrl-C to the job,
            too; any other signal is handed on to it.
    """
    payload = {
        "command": command,
        "config": config,
        "overrides": overrides,
        "directory": directory,
        "outcome": str(outcome),
        "argv": sys.argv,
    }
    child = subprocess.Popen([sys.executable, "-m", _MODULE], stdin=subprocess.PIPE, text=True)
    try:
        child.communicate(json.dumps(payload))
    except KeyboardInterrupt as stop:
        if isinstance(stop, Terminated) or not _in_foreground():
            # Not SIGINT: what sends that to a group of processes has reached the job already, and a second
            # one would end it where it stands.
            child.send_signal(signal.SIGTERM)
        child.wait()
        raise
    if outcome.is_file():
        return Outcome(**json.loads(outcome.read_text(encoding="utf-8")))
    how = f"killed by signal {-child.returncode}" if child.returncode < 0 else f"exit code {child.returncode}"
    return Outcome(error=f"the job's process ended without a result ({how})", code=child.returncode or 1)


def _in_foreground() -> bool:
    """Whether the terminal sends Ctrl-C to this process and, with it, to the jobs that it starts."""
    try:
        with open(os.ctermid(), encoding="utf-8") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:  # there is none
        return False


def main() -> int:
    """The child: do the job that standard input describes."""
    payload = json.load(sys.stdin)
    sys.argv = payload["argv"]  # the run records the command that the user typed
    run = import_module(f"embedrun.commands.{payload['command']}").run
    try:
        outcome = run(payload["config"], payload["overrides"], payload["directory"])
    except KeyboardInterrupt as stop:
        outcome = Outcome(error="interrupted", code=exit_code(stop))
    except Exception as fault:
        say(explain(fault))
        outcome = Outcome(error=explain(fault), code=exit_code(fault))
    write_atomically(Path(payload["outcome"]), json.dumps(asdict(outcome)))
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
