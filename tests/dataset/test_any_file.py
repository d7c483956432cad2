"""Any file is read as the old reader reads it: tens of thousands of files made from a seed, good and bad.

`make fuzz` runs it. FUZZ_FILES and FUZZ_SEED choose how many and which; FUZZ_ONLY=17 makes only file 17, and
prints what is read.
"""

import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import old_reader
import pytest
import strange_files
from old_reader import Outcome
from strange_files import Case

import embedrun.dataset.prepared
import embedrun.rows
import embedrun.store.read
from embedrun.dataset.pairs import Pairs
from embedrun.dataset.texts import Texts
from embedrun.dataset.triplets import Triplets
from embedrun.errors import DataError
from embedrun.store import Store

pytestmark = pytest.mark.fuzz

# What the present reader does otherwise on purpose: how a kind of difference begins, as `differences` names
# it, a regular expression; and the reason.
DECIDED: dict[str, str] = {
    r"wording: FILE: damaged or not a gzip file \(CRC check failed\).* -> FILE: damaged": (
        "a stream of gzip names both checksums"
    ),
    r"(wording|faults): .* -> FILE, line N: one column, '...'; its fields look separated by": (
        "a header of one column that seems to be several asks for dataset.separator"
    ),
    r"faults: FILE(: damaged or not a gzip file|, line N: byte N is not UTF-N).* -> FILE, line N: ": (
        "a file is read in order, and a fault that ends the reading stands before damage that is further on"
    ),
    r"faults: FILE, line N: .* -> FILE, line N: not CSV": (
        "where faulty rows are skipped, the fault that cannot be skipped stands alone"
    ),
    r"faults: FILE: no column .* \(columns: \).* -> FILE, line N: ": (
        "where no object has any field, each line is named: there are no columns to list"
    ),
    r"wording: FILE: (damaged or not a Parq|has columns and no rows).* -> FILE: damaged or not a Parq": (
        "what footer and pages say is looked at before anything is unpacked, in words of its own"
    ),
    r"refuses what was read: FILE: damaged or not a Parquet file \(its metadata has a value of an unknown": (
        "metadata with a value of no known type is damaged, though pyarrow passes over it"
    ),
}

FILES = int(os.environ.get("FUZZ_FILES", "20000"))
SEED = os.environ.get("FUZZ_SEED", "1")
CLASSES: dict[str, Any] = {"pair": Pairs, "triplet": Triplets, "text": Texts}
FRESH_CACHE = 500  # files that share a cache, which is then removed, or the disk would be full
SHOWN = 3  # differences of a kind that are shown whole, and whose files are kept
SMALL = (1, 2, 7, 64, 1000)  # of a block of the reader, so that a file of a few lines has several
MIDDLE = (1000, 4096, 65_536)  # the same for a file of more than LARGE bytes, or it takes too long
LARGE = 20_000
_SIZES = re.compile(r"[A-Z_]*(BLOCK|BYTES|ROWS|CHUNK|PIECE|PART|AT_ONCE|FROM|LEAST|FEWEST)[A-Z_]*")


def of_class(case: Case, on_bad_row: str) -> Outcome:
    """What the present classes give, an exception of another kind as a problem that names it."""
    options: dict[str, Any] = {"path": str(case.path), "columns": case.columns, "on_bad_row": on_bad_row}
    try:
        rows = CLASSES[case.form](**options).read("train", Store(case.path.parent / "none"))
        assert len(rows) == len(list(rows.texts.values())[-1])
        assert all(column[-1] == list(column)[-1] for column in rows.texts.values())
        assert list(rows.subset) == []
        texts = {view: list(column) for view, column in rows.texts.items()}
        skipped = [(row.file, row.line, row.column, row.reason) for row in rows.skipped]
        return Outcome(texts, rows.targets, skipped, [], rows.fingerprint())
    except DataError as fault:
        return Outcome(problems=fault.problems)
    except Exception as fault:
        return Outcome(problems=[f"crash: {type(fault).__name__}: {fault}"])


def of_old(case: Case, on_bad_row: str) -> Outcome:
    try:
        return old_reader.read(case.form, str(case.path), case.columns, on_bad_row)
    except Exception as fault:
        return Outcome(problems=[f"crash: {type(fault).__name__}: {fault}"])


def differences(case: Case, old: Outcome, new: Outcome) -> Iterator[tuple[str, str]]:
    """Each difference: its kind, which has no name and number of the one file, and the two sides."""
    if old.problems or new.problems:
        if old.problems != new.problems:
            yield _of_problems(case, old.problems, new.problems)
        return
    for view in dict.fromkeys([*old.texts, *new.texts]):
        if (here := old.texts.get(view)) != (there := new.texts.get(view)):
            yield "texts", f"{view}: {_first(here or [], there or [])}"
    yield from _of_targets(old.targets, new.targets)
    if old.skipped != new.skipped:
        pairs = zip_longest(old.skipped, new.skipped)
        here, there = next((a, b) for a, b in pairs if a != b)
        what = "wording" if here and there and here[:3] == there[:3] else "skipped"
        before, after = (_bare(case, "" if one is None else one[3]) for one in (here, there))
        yield f"{what}: {before} -> {after}", f"{here} -> {there}"
    if old.fingerprint != new.fingerprint:
        yield "fingerprint", f"{old.fingerprint} -> {new.fingerprint}"


def _of_targets(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> Iterator[tuple[str, str]]:
    if list(old) != list(new):
        yield "targets: their names", f"{list(old)} -> {list(new)}"
    for name in old.keys() & new.keys():
        here, there = old[name], np.asarray(new[name])
        if here.dtype != there.dtype:
            yield "targets: their types", f"{name}: {here.dtype} -> {there.dtype}"
        elif here.tobytes() != there.tobytes():  # -0.0 is not 0.0
            yield "targets", f"{name}: {_first(here.tolist(), there.tolist())}"


def _of_problems(case: Case, old: list[str], new: list[str]) -> tuple[str, str]:
    pairs = [(a or "", b or "") for a, b in zip_longest(old, new) if a != b]
    shown = "\n".join(f"  {a}\n  -> {b}" for a, b in pairs[:3])
    here, there = (_bare(case, text) for text in pairs[0])
    if not old:
        return f"refuses what was read: {there}", shown
    if not new:
        return f"reads what was refused: {here}", shown
    same_place = _place(case, pairs[0][0]) == _place(case, pairs[0][1])
    return f"{'wording' if same_place else 'faults'}: {here} -> {there}", shown


def _place(case: Case, problem: str) -> tuple[str, ...]:
    """File, line and column that a problem names."""
    found = re.match(rf"({re.escape(str(case.path))}[^,:]*)(, (?:line|row) \d+)?: ", problem)
    if found is None:
        return (problem.partition(": ")[0],)
    rest = problem[found.end() :]
    columns = (case.columns or dict.fromkeys(strange_files.FORMS[case.form], "")).items()
    column = next((theirs or ours for ours, theirs in columns if rest.startswith(f"{theirs or ours}: ")), "")
    return found[1], found[2] or "", column


def _bare(case: Case, text: str) -> str:
    """A message without what is of the one file: paths, numbers and values."""
    text = re.sub(rf"{re.escape(str(case.path))}[^,:]*", "FILE", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", text)
    text = re.sub(r"columns: .+?\)", "columns)", text, flags=re.DOTALL)
    return re.sub(r"0x[0-9a-f]+|\d+", "N", text)[:120]


def _first(old: list[Any], new: list[Any]) -> str:
    if len(old) != len(new):
        return f"{len(old)} -> {len(new)} rows"
    row = next(row for row, (a, b) in enumerate(zip(old, new, strict=True)) if a != b or repr(a) != repr(b))
    return f"row {row}: {old[row]!r:.200} -> {new[row]!r:.200}"


def sizes() -> list[tuple[ModuleType, str]]:
    """The present reader's constants that say how much is read at once, or kept from what size on."""
    return [
        (module, one)
        for module in (embedrun.store.read, embedrun.dataset.prepared, embedrun.rows)
        for one, value in vars(module).items()
        if type(value) is int and value > 1 and _SIZES.fullmatch(one)
    ]


@dataclass
class Found:
    """The differences of all files by kind."""

    folder: Path

    def __post_init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.shown: dict[str, dict[int, str]] = defaultdict(dict)  # by number of the file

    def add(self, number: int, case: Case, how: str, kind: str, sides: str) -> None:
        self.counts[kind] += 1
        if len(self.shown[kind]) < SHOWN and number not in self.shown[kind]:
            kept = self.folder / f"{number}"
            if not kept.exists():
                shutil.copytree(case.path.parent, kept, symlinks=True)
            done = "; ".join(case.done) or "nothing special"
            options = f"{CLASSES[case.form].__name__}, columns={case.columns}, {how}"
            self.shown[kind][number] = f"FUZZ_ONLY={number} ({kept}: {done})\n{options}\n{sides}"

    def report(self) -> tuple[str, bool]:
        """All kinds, the commonest first, and whether each of them is decided."""
        text, known = [], True
        for kind, count in self.counts.most_common():
            reason = next((DECIDED[one] for one in DECIDED if re.match(one, kind)), None)
            known &= reason is not None
            text.append(f"\n{count:6,} x {kind}" + ("" if reason is None else f"\n  decided: {reason}"))
            if reason is None:
                text += [re.sub(r"^", "    ", one, flags=re.MULTILINE) for one in self.shown[kind].values()]
        return "\n".join(text), known


def compare(number: int, folder: Path, found: Found, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Make one file and read it: refusing and skipping, some in small blocks, once more, or turned round."""
    random = Random(f"{SEED} {number} how")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    case = strange_files.make(f"{SEED} {number}", folder)
    before = sorted(folder.rglob("*"))
    came: Counter[str] = Counter()
    small = random.choice(SMALL if case.size < LARGE else MIDDLE) if random.random() < 0.6 else None
    ways = [(case, on_bad_row) for on_bad_row in random.sample(("refuse", "skip"), 2)]
    if random.random() < 0.2 and (turned := case.turned()) is not None:
        ways.append((turned, random.choice(("refuse", "skip"))))
    with monkeypatch.context() as patch:
        for module, name in sizes() if small is not None else ():
            patch.setattr(module, name, small)
        for one, on_bad_row in ways:
            old = of_old(one, on_bad_row)
            came["refused" if old.problems else "with skipped rows" if old.skipped else "whole"] += 1
            for time in ("cold", "warm")[: 2 if random.random() < 0.3 else 1]:
                new = of_class(one, on_bad_row)
                how = f"on_bad_row={on_bad_row}, {time}, blocks of {small or 'the usual size'}"
                for kind, sides in differences(one, old, new):
                    found.add(number, one, how, kind, sides)
                if "FUZZ_ONLY" in os.environ:
                    print(f"\n{one}\n{how}\nold: {old!r:.5000}\nnew: {new!r:.5000}")
    if sorted(folder.rglob("*")) != before:
        found.add(number, case, "", "writes beside the file", str(sorted(folder.rglob("*"))))
    return came


def test_any_file_is_read_as_the_old_reader_reads_it(tmp_path, monkeypatch, capsys):
    only = os.environ.get("FUZZ_ONLY")
    numbers = range(FILES) if only is None else [int(only)]
    found, came = Found(tmp_path / "different"), Counter()
    for number in numbers:
        if number % FRESH_CACHE == 0:
            shutil.rmtree(tmp_path / f"cache-{number - FRESH_CACHE}", ignore_errors=True)
        cache = tmp_path / f"cache-{number - number % FRESH_CACHE}"
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        came += compare(number, tmp_path / "made", found, monkeypatch)
    text, known = found.report()
    small = ", ".join(f"{module.__name__}.{name}" for module, name in sizes()) or "no constant"
    with capsys.disabled():
        print(f"\n{len(numbers):,} files, seed {SEED}: {dict(came)}; small blocks by {small}\n{text}")
    if only is None:  # or the files are not those that this is for
        assert min(came[one] for one in ("refused", "with skipped rows", "whole")) > FILES / 20, came
    assert known, "the kinds above that are not decided"


def _texts_without_outer_blanks(patch: pytest.MonkeyPatch) -> None:
    for name in ("text1", "text2", "anchor", "text"):
        patch.setitem(old_reader.RULES, name, lambda value: old_reader.sentence(value).strip())


def _scores_of_half_the_digits(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(old_reader.RULES, "score", lambda value: float(np.float32(old_reader.score(value))))


def _underscores_in_numbers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        old_reader, "_NUMBER", re.compile(old_reader._NUMBER.pattern.replace(r"\d", r"[\d_]"), re.IGNORECASE)
    )


def _byte_order_marks_in_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(old_reader, "_BYTE_ORDER_MARK", "never there")


def _lines_from_0(patch: pytest.MonkeyPatch) -> None:
    add = old_reader.LineFaults.add
    patch.setattr(
        old_reader.LineFaults, "add", lambda self, line, *rest, **more: add(self, line - 1, *rest, **more)
    )


def _shards_the_other_way_round(patch: pytest.MonkeyPatch) -> None:
    shards = old_reader._Files.shards
    patch.setattr(old_reader._Files, "shards", lambda self: shards(self)[::-1])


def _one_reason_for_a_row(patch: pytest.MonkeyPatch) -> None:
    skipped = old_reader._skipped
    patch.setattr(
        old_reader, "_skipped", lambda faults: [(*row[:3], row[3].split("; ")[0]) for row in skipped(faults)]
    )


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_texts_without_outer_blanks, "texts"),
        (_scores_of_half_the_digits, "targets"),
        (_underscores_in_numbers, ("faults: ", "skipped: ", "refuses what was read: ")),
        (_byte_order_marks_in_names, "reads what was refused"),
        (_lines_from_0, "faults: "),
        (_shards_the_other_way_round, "texts"),
        (_one_reason_for_a_row, "wording: "),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_rule_that_differs_is_found(change, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    change(monkeypatch)
    found = Found(tmp_path / "different")
    for number in range(2000):
        compare(number, tmp_path / "made", found, monkeypatch)
        if any(one.startswith(kind) for one in found.counts):
            return
    pytest.fail(found.report()[0])
