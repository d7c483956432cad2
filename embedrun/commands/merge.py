"""The mean of the weights of several runs, or of a run and its start, as one model folder."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.command_line import Parser
from embedrun.console import aligned, clean, say, score_text
from embedrun.errors import ConfigError
from embedrun.files import expanded, to_json, unwritable, whole_folder
from embedrun.runs.search import OF_MODEL, named

if TYPE_CHECKING:
    from embedrun.experiment.merging import Merged

_EPILOG = """With --choose-by the single models and every mean are scored on the dev rows of the first run,
the best one is written, and its test scores are compared with those of the best single model.

examples:
  embedrun merge outputs/angle_stsb/RUN1 outputs/angle_stsb/RUN2 -o merged
  embedrun merge RUN --with start --weights 0.3,0.5,0.7 --choose-by stsb/spearman -o merged"""


def parser() -> Parser:
    """The parser of `embedrun merge`."""
    made = Parser(
        "embedrun merge",
        usage="%(prog)s RUN [RUN ...] -o DIR [--with start|MODEL] [--weights 0.3,0.5,0.7]\n"
        "                      [--choose-by KEY]",
        description=__doc__,
        examples=_EPILOG,
    )
    add = made.add_argument
    add("runs", nargs="+", metavar="RUN", help="finished runs, checkpoints or model folders, of one shape")
    add("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to make; must not exist")
    what = "also average with the model that the first run began with, or with another"
    add("--with", dest="start", metavar="start|MODEL", help=what)
    add("--weights", metavar="0.3,0.5", help="with --with: shares of the runs; else 0.5")
    add("--choose-by", metavar="KEY", help="dev score of the first run, as training.select_by")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun merge`."""
    given = parser().read(argv)
    target = expanded(str(given.output))
    shares = _shares(given.weights or "0.5")
    runs = [named(run, OF_MODEL) for run in given.runs]
    problems = []
    if twice := [run for run, count in Counter([*runs, given.start]).items() if count > 1]:
        problems.append(f"RUN: {twice[0]} is named twice; name it once")
    if given.weights is not None and given.start is None:
        problems.append("--weights: are of the runs beside a start; add --with start")
    if shares is None:
        problems.append(f"--weights: expected numbers above 0 and up to 1, as 0.3,0.5; got {given.weights!r}")
    if len(given.runs) < 2 and given.start is None:
        problems.append("RUN: one model has no mean; name several, or add --with start")
    if shares is not None and len(shares) > 1 and given.choose_by is None:
        problems.append("--weights: several need --choose-by KEY, the dev score that chooses")
    if target.exists():
        problems.append(f"-o: {str(target)!r} exists; name another")
    elif why := unwritable(target):
        problems.append(f"-o: {str(target)!r} cannot be made: {why}; name another")
    if problems:
        raise ConfigError(problems)
    from embedrun.experiment.merging import Merging
    from embedrun.runs import sums

    merging = Merging(runs, given.start)
    found = merging.chosen(shares or [], given.choose_by)
    merging.encoder.load_state_dict(found.chosen.weights)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(target) as aside:
        merging.encoder.save(aside)
        made = {"of": runs, "with": given.start, "written": found.chosen.label, "dev": _dev(found)}
        (aside / "merge.json").write_text(to_json(made))
        sums.write(aside)
    if given.choose_by is not None:
        _show(found)
    say(f"{target}: {found.chosen.label}")
    return 0


def _shares(text: str) -> list[float] | None:
    try:
        shares = [float(word) for word in text.split(",")]
    except ValueError:
        return None
    return shares if all(0 < share <= 1 for share in shares) else None


def _dev(found: "Merged") -> dict[str, dict[str, float]]:
    return {candidate.label: candidate.dev for candidate in found.candidates}


def _show(found: "Merged") -> None:
    keys = list(found.chosen.dev)
    rows = [
        [candidate.label, *(score_text(key, candidate.dev.get(key)) for key in keys)]
        for candidate in found.candidates
    ]
    print(clean(aligned([["model", *keys], *rows], right=range(1, len(keys) + 1))), end="\n\n")
    if found.chosen is found.single:
        print("no gain: the best single model is the best of all on dev")
        return
    for key, (before, after, (low, high)) in found.gains().items():
        verdict = "" if low > 0 else ", a loss" if high < 0 else ", no gain: 0 is in the interval"
        print(
            f"{key}: {score_text(key, before)} of the best single model -> {score_text(key, after)} "
            f"({score_text(key, after - before, sign=True)} ± {score_text(key, (high - low) / 2)}{verdict})"
        )
