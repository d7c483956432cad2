"""Pack a table with the runs, predictions and claims behind it, for a reader who checks it."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from embedrun.commands.command_line import Parser, misplaced, with_runs
from embedrun.config.check import nearest
from embedrun.console import say
from embedrun.errors import ConfigError
from embedrun.files import expanded, read_yaml
from embedrun.table.preset import FILE, names

_EPILOG = """The pack holds configurations, environments, scores, metrics and per-row predictions, no texts,
weights or checkpoints. Before you publish it, look through what it says of your machine: environment.json has
the command line and versions, config.yaml the paths of data and models. `embedrun verify PACK` recomputes the
table.

examples:
  embedrun pack my_table.yaml -o pack.zip
  embedrun pack my_table.yaml claims.yaml -o pack.zip --config-dir presets
  embedrun pack outputs/sweep -o pack.zip"""


def parser() -> Parser:
    """The parser of `embedrun pack`."""
    made = Parser(
        "embedrun pack",
        usage="%(prog)s TABLE [CLAIMS.yaml] -o PACK.zip [option=value ...]\n"
        "       embedrun pack DIR -o PACK.zip",
        description=__doc__,
        examples=_EPILOG,
    )
    add = made.add_argument
    what = "a table and its claims, or a folder with runs; overrides as given to `reproduce`"
    add("words", nargs="+", metavar="TABLE|DIR", help=what)
    add("-o", "--output", type=Path, required=True, metavar="PACK.zip", help="no file is overwritten")
    add("--config-dir", "-cd", type=Path, metavar="DIR", help="your own YAML, which is packed, too")
    where = "where the runs are; else outputs"
    add("--outputs", type=Path, default=Path("outputs"), metavar="DIR", help=where)
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun pack`; DataError if no run of the table has finished."""
    given = parser().read(argv)
    overrides = with_runs([word for word in given.words if "=" in word])
    if problems := misplaced(overrides, "pack"):
        raise ConfigError(problems)
    table, claims, folder = _sorted([word for word in given.words if "=" not in word])
    from embedrun.study.pack import Asked, write
    from embedrun.table.of_runs import table_of_runs

    with TemporaryDirectory() as place:
        if folder is not None:
            table, given.outputs = str(Path(place, "table.yaml")), folder
            Path(table).write_text(yaml.safe_dump(table_of_runs([folder]), sort_keys=False), encoding="utf-8")
        asked = Asked(str(table), claims, tuple(overrides), config_dir=given.config_dir)
        (work := Path(place, "pack")).mkdir()
        count, lacking = write(asked, given.outputs, given.output, work)
    for line in lacking:
        say(f"the table is not complete: {line}")
    say(f"wrote {given.output}: {count} runs, {given.output.stat().st_size / 1e6:.1f} MB")
    say(f"next  embedrun verify {given.output}")
    return 0


def _sorted(words: Sequence[str]) -> tuple[str | None, str | None, Path | None]:
    """The table, the claims and the folder of runs among the words, each None where there is none."""
    claims, tables, folders, problems = [], [], [], []
    for word in words:
        if word.endswith(FILE):
            try:
                content = read_yaml(expanded(word))
            except (OSError, ValueError) as fault:
                reason = getattr(fault, "strerror", None) or fault
                problems.append(f"embedrun pack: {word}: cannot be read: {reason}")
                continue
            (claims if isinstance(content, dict) and "claims" in content else tables).append(word)
        elif word in names():
            tables.append(word)
        elif Path(word).is_dir():
            folders.append(Path(word))
        else:
            there = nearest(word, names())
            problems.append(f"embedrun pack: no table, file of claims or folder of runs {word!r}{there}")
    if not problems and (len(tables) + len(folders) != 1 or len(claims) > len(tables)):
        told = "a table and at most one file of claims, or a folder of runs"
        problems.append(f"embedrun pack: expected {told}; got {' '.join(words)}")
    if problems:
        raise ConfigError(problems)
    return next(iter(tables), None), next(iter(claims), None), next(iter(folders), None)
