"""Resume a run or an evaluation that was killed, interrupted or failed."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from embedrun.commands.command_line import Parser
from embedrun.console import say
from embedrun.experiment.outcome import mark_finished
from embedrun.report.page import FILE, write_or_warn
from embedrun.runs.directory import Run
from embedrun.runs.reading import RunFiles
from embedrun.runs.search import UNFINISHED, configuration, named, refuse_code

_EPILOG = """Training resumes from the newest intact checkpoint and ends as if it had never stopped. An
evaluation keeps each part that it has scored: an STS set, a SentEval task, an MTEB task. The
configuration is the run's own; an option that has been changed since is refused. Only the number of
processes may be another.

examples:
  embedrun resume outputs/angle_bert/RUN
  embedrun resume latest
  embedrun resume latest --processes 8
  embedrun resume outputs/evaluate/RUN"""


def parser() -> Parser:
    """The parser of `embedrun resume`."""
    made = Parser(
        "embedrun resume", usage="%(prog)s RUN_DIR [--processes N]", description=__doc__, examples=_EPILOG
    )
    made.add_argument("run", metavar="RUN_DIR", help="a run or an evaluation: directory, name, or latest")
    made.add_argument("--processes", type=int, metavar="N", help="gpu.processes in place of the run's own")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun resume`."""
    given = parser().read(argv)
    folder = Path(named(given.run, UNFINISHED))
    config = configuration(folder)
    if given.processes is not None:
        config = {**config, "gpu": {**config["gpu"], "processes": given.processes}}
    refuse_code(folder)
    results = folder / "results.json"
    if not RunFiles.read(folder, strict=False).is_finished:
        # Before anything is imported that takes seconds; whoever does the work claims it again.
        run = Run.claim(folder)
        if not results.is_file():
            run.release()
            module = import_module(f"embedrun.experiment.{'evaluation' if 'model' in config else 'training'}")
            return module.run(config, [], None, resumed=folder).code
        mark_finished(run)  # it was killed when all was written
    elif not (folder / FILE).is_file():
        write_or_warn(folder)  # it was killed before its page
    say(f"{folder}: has finished; its scores are in {results}")
    return 0
