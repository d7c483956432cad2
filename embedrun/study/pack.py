"""A table with all that its numbers rest on, in one file; and the recomputing of each from predictions.

A pack is a zip archive: `manifest.json`, the table and the claims with their seal, presets of the author
(`conf/`), and below `runs/` of each run its configuration, environment, scores, metrics and predictions.
`table.md` and `claims.txt` are what was printed. Nothing in it is code, and nothing of it is run.
"""

import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from embedrun import __version__
from embedrun.errors import ConfigError, DataError
from embedrun.files import as_written, read_json, sha256, to_json, whole_file
from embedrun.report.diff import Predictions, files, score_key
from embedrun.report.scores import CLEAN
from embedrun.runs.reading import RunFiles
from embedrun.study import registration
from embedrun.study.marks import judged
from embedrun.table.cells import Cells, Slot
from embedrun.table.formats import markdown
from embedrun.table.preset import FILE, Table, changes, load, table_file
from embedrun.table.sheet import sheet_of

MANIFEST, TABLE, CLAIMS = "manifest.json", "table.md", "claims.txt"
_OF_A_RUN = (
    "config.yaml", "overrides.yaml", "choices.yaml", "environment.json", "results.json", "status.json",
    "metrics.jsonl", "speed.jsonl", "contamination.json",
)  # fmt: skip
_ENDINGS = (".json", ".jsonl", ".yaml", ".yml", ".parquet", ".md", ".txt")
_SAME = 1e-6  # points by which a recomputed score may differ
_MOST = 2**34  # bytes of an unpacked pack
_LINES = 6  # of a changed text that are shown


@dataclass(frozen=True)
class Asked:
    """What a pack is of.

    Args:
        table: name of its file; `claims` is that of the claims.
        overrides: of every run; `changed` are those that make it differ from the paper's.
        config_dir: the author's own presets.
        lacking: seeds of rows that no run had when it was packed, in words.
    """

    table: str
    claims: str | None = None
    overrides: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    config_dir: Path | None = None
    lacking: tuple[str, ...] = ()

    def loaded(self, folder: Path) -> Table:
        """The table, which has the name of its file alone, wherever that is."""
        return replace(load(str(folder / self.table)), name=Path(self.table).name)

    def registration(self, folder: Path) -> registration.Registration:
        """The claims, of the packed table."""
        return registration.read(str(folder / str(self.claims)), str(folder / self.table))


def write(asked: Asked, outputs: Path, target: Path, work: Path) -> tuple[int, list[str]]:
    """Write the pack; `work` is an empty folder. The number of its runs, and what a reader would miss.

    Raises:
        ConfigError: if there is such a file.
        DataError: if no run of the table has finished.
    """
    if target.exists():
        raise ConfigError(f"embedrun pack: -o: {str(target)!r} exists; name another file")
    table = load(asked.table)
    cells = Cells([outputs], extra=asked.overrides, config_dir=asked.config_dir)
    runs = {run for slot in cells.find(table) for run in _runs_of(slot)}
    if not runs:
        raise DataError(
            f"embedrun pack: no run of {asked.table} has finished; embedrun reproduce trains them"
        )
    for run in runs:
        place = work / "runs" / run.parent.name / run.name
        kept = [*(run / name for name in _OF_A_RUN), *files(run).values()]
        for path in filter(Path.is_file, kept):
            (place / path.relative_to(run)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place / path.relative_to(run))
    name = Path(asked.table).name if asked.table.endswith(FILE) else f"{asked.table.replace('/', '_')}.yaml"
    shutil.copyfile(table_file(asked.table), work / name)
    inside = Asked(name, overrides=asked.overrides, changed=tuple(filter(changes, asked.overrides)))
    if asked.config_dir is not None:
        for path in (one for one in asked.config_dir.rglob("*") if one.suffix in FILE):
            (work / "conf" / path.relative_to(asked.config_dir)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, work / "conf" / path.relative_to(asked.config_dir))
        inside = replace(inside, config_dir=Path("conf"))
    if asked.claims is not None:
        inside = replace(inside, claims=_with_claims(asked.claims, name, work))
    texts, lacking = recomputed(inside, work, cells_of(inside, work))
    for name, text in texts.items():
        (work / name).write_text(text, encoding="utf-8")
    _write_zip(replace(inside, lacking=tuple(lacking)), work, target)
    return len(runs), lacking


def _runs_of(slot: Slot) -> Iterator[Path]:
    if slot.run is not None:
        yield slot.run.path
        for first in slot.needs.values():
            yield from _runs_of(first)


def _with_claims(claims: str, table: str, work: Path) -> str:
    """Copy the file of claims and its seal, unchanged; the name that it has in the pack."""
    file = registration.read(claims)
    if Path(file.table).name != table and f"{file.table.replace('/', '_')}.yaml" != table:
        raise ConfigError(f"{claims}: its claims are of {file.table}, not of the packed table")
    for path in filter(Path.is_file, (file.path, file.seal)):
        shutil.copyfile(path, work / path.name)
    return file.path.name


def _write_zip(asked: Asked, work: Path, target: Path) -> None:
    """The archive; its bytes depend on the contents alone."""
    names = sorted(path.relative_to(work).as_posix() for path in work.rglob("*") if path.is_file())
    manifest = {
        "schema": 1,
        "embedrun": __version__,
        "table": asked.table,
        "claims": asked.claims,
        "overrides": list(asked.overrides),
        "changed": list(asked.changed),
        "conf": asked.config_dir is not None,
        "lacking": list(asked.lacking),
        "files": {name: sha256(work / name) for name in names},
    }
    (work / MANIFEST).write_text(to_json(manifest) + "\n", encoding="utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as aside, zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (MANIFEST, *names):
            archive.writestr(zipfile.ZipInfo(name), (work / name).read_bytes(), zipfile.ZIP_DEFLATED)


def recomputed(asked: Asked, folder: Path, cells: Cells) -> tuple[dict[str, str], list[str]]:
    """The texts of the table and of the claims from the runs below a folder, and which seeds are missing."""
    table = asked.loaded(folder)
    slots = cells.find(table)
    sheet = sheet_of(table, slots, extra=cells.extra, changed=asked.changed)
    sheet = judged(sheet, table, slots, marks=True)
    texts = {TABLE: markdown(replace(sheet, commands=()))}
    lacking: dict[str, list[str]] = {}
    for slot in cells.find(table, cells.asked(table)):
        if slot.run is None and slot.cell.not_runnable is None:
            lacking.setdefault(slot.row.id, []).append(str(slot.seed))
    if asked.claims is not None:
        file = replace(asked.registration(folder), of=table, name=str(asked.claims), table=asked.table)
        try:
            texts[CLAIMS] = file.shown(file.decide(file.runs(slots))) + "\n"
        except DataError as fault:  # of a study that is still running
            texts[CLAIMS] = "".join(f"{problem}\n" for problem in fault.problems)
    return texts, [f"{row}: no run with seed {', '.join(seeds)}" for row, seeds in lacking.items()]


def cells_of(asked: Asked, folder: Path) -> Cells:
    """The runs of a pack, made by whatever code."""
    conf = None if asked.config_dir is None else folder / asked.config_dir
    return Cells([folder / "runs"], extra=asked.overrides, config_dir=conf, of_any_code=True)


def unpack(pack: Path, work: Path) -> tuple[Asked, list[str]]:
    """Unpack into an empty folder; what the pack is of, and which files are not as they were packed.

    Raises:
        DataError: if it is no pack, or a path of it leaves the folder.
    """
    with as_written(pack, "a pack of embedrun pack", "ask its author"):
        try:
            with zipfile.ZipFile(pack) as archive:
                _refuse_unsafe(archive.infolist())
                archive.extractall(work)
        except zipfile.BadZipFile as fault:
            raise ValueError(str(fault)) from None
        manifest = read_json(work / MANIFEST)
        kept, there = (
            dict(manifest["files"]),
            {path.relative_to(work).as_posix(): sha256(path) for path in work.rglob("*") if path.is_file()},
        )
        there.pop(MANIFEST)
        asked = Asked(
            str(manifest["table"]),
            manifest["claims"],
            tuple(manifest["overrides"]),
            tuple(manifest["changed"]),
            Path("conf") if manifest["conf"] else None,
            tuple(manifest["lacking"]),
        )
        if lacking := {asked.table, asked.claims or asked.table} - there.keys():
            raise ValueError(f"has no file {', '.join(lacking)}")
    faults = [f"{name}: is missing" for name in sorted(kept.keys() - there.keys())]
    faults += [f"{name}: was not packed with the others" for name in sorted(there.keys() - kept.keys())]
    faults += [f"{name}: has changed" for name in sorted(kept) if there.get(name, kept[name]) != kept[name]]
    return asked, faults


def _refuse_unsafe(members: Sequence[zipfile.ZipInfo]) -> None:
    if sum(one.file_size for one in members) > _MOST:
        raise ValueError(f"unpacks to more than {_MOST >> 30} GiB")
    for one in members:
        path = PurePosixPath(one.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in one.filename or path.suffix not in _ENDINGS:
            raise ValueError(f"has {one.filename!r}, which no pack has")


def differences(asked: Asked, folder: Path, cells: Cells) -> tuple[int, list[str]]:
    """The number of scores that were recomputed from predictions, and all that is not as it was printed."""
    count, faults = 0, []
    for run in sorted(run.path for run in cells.measured):
        recomputed_here, wrong = _scores(run)
        count += recomputed_here
        faults += [f"{run.relative_to(folder)}: {one}" for one in wrong]
    known = {run for slot in cells.find(asked.loaded(folder)) for run in _runs_of(slot)}
    faults += [
        f"{run.path.relative_to(folder)}: fills no cell; its configuration is that of no row"
        for run in cells.measured
        if run.path not in known
    ]
    if asked.claims is not None and "; changed since" in (standing := asked.registration(folder).standing()):
        faults.append(f"{asked.claims}: {standing}")
    texts, lacking = recomputed(asked, folder, cells)
    for name, text in texts.items():
        path = folder / name
        faults += _unlike(name, path.read_text(encoding="utf-8") if path.is_file() else "", text)
    return count, [*faults, *(line for line in lacking if line not in asked.lacking)]


def _scores(run: Path) -> tuple[int, list[str]]:
    """How many scores of a run its predictions give, and those that they give otherwise."""
    scores, wrong = RunFiles(run).scores, []
    by_key: dict[str, float] = {}
    for name, path in files(run).items():
        predictions, key = Predictions.read(path), score_key(name, scores)
        by_key[key] = predictions.figure
        if (clean := predictions.of_clean_rows) is not None:
            by_key[key + CLEAN] = clean.figure
    averages: Mapping[str, list[float]] = {
        key: [by_key[one] for one in by_key if _is_part(one, key)] for key in scores if "/avg/" in key
    }
    given = by_key | {key: sum(own) / len(own) for key, own in averages.items() if own}
    for key, value in given.items():
        if key in scores and abs(value - scores[key]) > _SAME:
            wrong.append(f"{key} is {scores[key]:.4f} in results.json, {value:.4f} by its predictions")
    return sum(key in scores for key in given), wrong


def _is_part(key: str, average: str) -> bool:
    """Whether a score is one of those that an average of the same metric is made of."""
    task, _, metric = average.rpartition("/")
    return key.startswith(f"{task.rpartition('/')[0]}/") and key.endswith(f"/{metric}") and key != average


def _unlike(name: str, printed: str, now: str) -> list[str]:
    """The lines of a text that are not as they come out now, the first few of them."""
    lines = [printed.splitlines(), now.splitlines()]
    longest = max(map(len, lines))
    before, after = ([*own, *[""] * (longest - len(own))] for own in lines)
    places = [place for place in range(longest) if before[place] != after[place]]
    shown = [
        f"{name}, line {place + 1}: printed {before[place].strip()!r}, recomputed {after[place].strip()!r}"
        for place in places[:_LINES]
    ]
    more = len(places) - _LINES
    return [*shown, *([f"{name}: {more} more lines differ"] if more > 0 else [])]
