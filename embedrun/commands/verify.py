"""Recompute a packed table from its predictions, and list all that differs; no model is needed."""

import argparse
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from embedrun.commands.command_line import Parser
from embedrun.commands.reproduce import trained
from embedrun.console import clean, say, score_text
from embedrun.errors import ConfigError, DataError
from embedrun.runs.reading import RunFiles, at

if TYPE_CHECKING:
    from embedrun.study.pack import Asked
    from embedrun.table.cells import Cells, Measured

_EPILOG = """Every score, mean, deviation, interval, mark and verdict is computed anew from the predictions of
each row, and held against what was printed. Exit code 1 if anything differs. Nothing in a pack is run; with
--rerun, its configurations are trained as those of your own would be.

examples:
  embedrun verify pack.zip
  embedrun verify pack.zip --rerun 1 --seed 7"""


def parser() -> Parser:
    """The parser of `embedrun verify`."""
    made = Parser(
        "embedrun verify",
        usage="%(prog)s PACK.zip [--rerun N [--seed N]]",
        description=__doc__,
        examples=_EPILOG,
    )
    add = made.add_argument
    add("pack", type=Path, metavar="PACK.zip", help="of embedrun pack")
    add(
        "--rerun",
        type=int,
        default=0,
        metavar="N",
        help="train so many of its runs, drawn at random, in outputs",
    )
    add("--seed", type=int, default=0, metavar="N", help="of that draw; else 0")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun verify`; exit code 1 if anything differs, DataError if it is no pack."""
    given = parser().read(argv)
    if given.rerun < 0 or given.seed < 0:
        raise ConfigError("embedrun verify: --rerun, --seed: 0 or more")
    if not given.pack.is_file():
        raise DataError(f"{given.pack}: no such file; embedrun pack writes one")
    from embedrun.study import pack

    began = perf_counter()
    with TemporaryDirectory() as place:
        folder = Path(place)
        asked, faults = pack.unpack(given.pack, folder)
        cells = pack.cells_of(asked, folder)
        count, more = pack.differences(asked, folder, cells)
        faults += more
        for printed in filter(Path.is_file, (folder / pack.TABLE, folder / pack.CLAIMS)):
            print(clean(printed.read_text(encoding="utf-8")))
        if asked.claims is not None:
            say(asked.registration(folder).standing())
        for line in asked.lacking:
            say(f"the table was not complete: {line}")
        for fault in faults:
            say(f"differs: {fault}")
        runs, seconds = len(cells.measured), perf_counter() - began
        told = f"{len(faults)} {'differs' if len(faults) == 1 else 'differ'}" if faults else "all equal"
        say(f"{runs} runs, {count} scores recomputed from predictions: {told}; {seconds:.1f} s")
        failed = _rerun(given, asked, folder, cells) if given.rerun else False
    return 1 if faults or failed else 0


def _rerun(given: argparse.Namespace, asked: "Asked", folder: Path, packed: "Cells") -> bool:
    """Train some of the packed runs anew; whether one failed, or has another score as printed."""
    conf = None if asked.config_dir is None else folder / asked.config_dir
    table = asked.loaded(folder)
    slots = [(slot, slot.run) for slot in packed.find(table) if slot.run is not None]
    wrong = False
    for slot, run in random.Random(given.seed).sample(slots, min(given.rerun, len(slots))):
        cell = replace(slot.cell, overrides=slot.overrides[:-1])  # with those of every run, without the seed
        one = replace(table, rows=[replace(slot.row, cells=(cell,))], seeds=[slot.seed])
        runs = trained(one, asked.overrides, config_dir=conf, again=True)
        lines = ["it failed"] if isinstance(runs, int) else _unlike(run, runs[slot.row.id][slot.seed])
        for line in lines or ["every score is the same as printed"]:
            say(f"rerun of {slot.row.id}, seed {slot.seed}: {line}")
        wrong = wrong or bool(lines)
    return wrong


def _unlike(packed: "Measured", rerun: "Measured") -> list[str]:
    now = rerun.scores
    printed = {
        key: (score_text(key, value), score_text(key, now[key]) if key in now else "not there")
        for key, value in packed.scores.items()
    }
    lines = [f"{key} is {there}, packed {was}" for key, (was, there) in printed.items() if was != there]
    if lines and (then := _machine(packed)) != (here := _machine(rerun)):
        lines.append(f"it was trained on {then}, and now on {here}")
    return lines


def _machine(run: "Measured") -> str:
    environment = RunFiles.read(run.path).environment
    return f"{at(environment, 'cpu.type')} with torch {at(environment, 'versions.torch')}"
