"""A file of claims: what it says, the seal that it had before the first run, and what its runs decide.

```yaml
table: my_table.yaml                 # beside this file, or one of the papers', as angle/table4
statistic: Test                      # heading of the column whose mean differences are decided
least: 0.3                           # the smallest difference that matters, in points
alpha: 0.05                          # of all claims together
correction: holm                     # or bonferroni, none
claims:
  - name: AnglE over CoSENT
    better: AnglE                    # rows by id: group/label, or the label where there is no group
    worse: CoSENT
  - {name: the same on dev, better: AnglE, worse: CoSENT, statistic: Dev, group: On dev}
  - {name: RAOE over CoSENT, better: RAOE, worse: CoSENT, printed: 1.2}  # the difference that a paper prints
```
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedrun import __version__
from embedrun.config.check import nearest
from embedrun.config.options import option
from embedrun.console import fitted
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, as_written, expanded, publish, read_json, sha256, to_json
from embedrun.plot import forest
from embedrun.study.claims import ALPHA, LEAST, Claim, Correction, Decision, Runs, decide, sides_of
from embedrun.study.drawn import evidence
from embedrun.table.cells import Slot
from embedrun.table.choice import chosen
from embedrun.table.preset import FILE, Table, checked, load, table_file


@dataclass
class Stated:
    """One claim of the file; without a `statistic`, that of the file."""

    name: str
    better: str
    worse: str
    statistic: str = ""
    group: str = ""
    printed: float | None = None

    @property
    def title(self) -> str:
        """Its name, behind that of its group."""
        return f"{self.group}: {self.name}" if self.group else self.name

    def claim(self, statistic: str) -> Claim:
        """The claim between the sides that `Registration.runs` names."""
        own = self.statistic or statistic
        return Claim(self.name, f"{self.better}|{own}", f"{self.worse}|{own}")


@dataclass(kw_only=True)
class _File:
    name: str
    table: str
    statistic: str
    claims: list[Stated]
    least: float = option(LEAST, unit="points", at_least=0)
    alpha: float = option(ALPHA, unit="", above=0, below=1)
    correction: Correction = "holm"


@dataclass(kw_only=True)
class Registration(_File):
    """A file of claims, checked; `name` is its path, `of` is the table."""

    of: Table

    @property
    def path(self) -> Path:
        """Of the file."""
        return expanded(self.name)

    @property
    def seal(self) -> Path:
        """Where its seal is."""
        return self.path.with_suffix(".seal.json")

    @property
    def stated(self) -> list[Claim]:
        """The claims, in their order."""
        return [one.claim(self.statistic) for one in self.claims]

    @property
    def rows(self) -> list[str]:
        """The rows that a claim names, in the order of the table."""
        named = {row for one in self.claims for row in (one.better, one.worse)}
        return [row.id for row in self.of.rows if row.id in named]

    @property
    def _sides(self) -> list[tuple[str, str]]:
        """The row and the statistic of each side of a claim, each once."""
        both = [
            (row, one.statistic or self.statistic) for one in self.claims for row in (one.better, one.worse)
        ]
        return list(dict.fromkeys(both))

    def runs(self, slots: Sequence[Slot]) -> Runs:
        """By side of a claim and seed, the scores of the runs of slots."""
        counting = chosen(slots).slots
        return {
            f"{row}|{statistic}": evidence(self.of, row, statistic, counting)
            for row, statistic in self._sides
        }

    def decide(self, runs: Runs) -> list[Decision]:
        """What became of the claims; DataError where a side has fewer than two seeds."""
        lacking = [
            f"{self.name}: {one.name}: {one.better!r} and {one.worse!r} need two finished seeds each"
            for one, claim in zip(self.claims, self.stated, strict=True)
            if min(map(len, sides_of(claim, runs)[1])) < 2
        ]
        if lacking:
            raise DataError([*lacking, f"to train them: embedrun reproduce {self.table}"])
        options: dict[str, Any] = {"alpha": self.alpha, "least": self.least}
        return decide(self.stated, runs, correction=self.correction, **options)

    def shown(self, decisions: Sequence[Decision], width: int | None = None) -> str:
        """The claims with what became of them, group by group, in lines of this width."""
        lines = []
        for group in dict.fromkeys(one.group for one in self.claims):
            cells = [["claim", "by seed", "difference", "interval", "p", "verdict"]]
            compared = any(one.printed is not None for one in self.claims)
            cells[0] += ["printed"] if compared else []
            for stated, one in zip(self.claims, decisions, strict=True):
                if stated.group == group:
                    each = ", ".join(f"{value:+.2f}" for value in one.each.values()) or "not paired"
                    cells.append([stated.name, each, *one.cells(self.least)])
                    cells[-1] += [_signed(stated.printed)] if compared else []
            lines += [*([group] if group else []), fitted(cells, width, right=(2, 4, 6)), ""]
        told = {"holm": "Holm's correction", "bonferroni": "Bonferroni's correction", "none": "no correction"}
        how = f"alpha {self.alpha:g} with {told[self.correction]}"
        count = f"{len(decisions)} claim{'s' * (len(decisions) != 1)}"
        lines.append(f"{count}, {how}; a difference below {self.least:g} decides nothing")
        return "\n".join(lines)

    def plot(self, decisions: Sequence[Decision], path: Path) -> None:
        """The differences with their intervals, and what a paper prints of them."""
        bars = {
            stated.title: (one.estimate.mean, one.estimate.interval(one.level))
            for stated, one in zip(self.claims, decisions, strict=True)
        }
        beside: dict[str, Any] = {
            "printed": {one.title: one.printed for one in self.claims if one.printed is not None},
            "groups": {one.title: one.group for one in self.claims},
            "each": {one.title: [*it.each.values()] for one, it in zip(self.claims, decisions, strict=True)},
        }
        statistics = {one.statistic or self.statistic for one in self.claims}
        label = "difference in points" + (f", {self.statistic}" if len(statistics) == 1 else "")
        forest(bars, label, path, least=self.least, **beside)

    @property
    def strictest(self) -> float:
        """The level of the claim with the smallest p-value, which a plan is made for."""
        return self.alpha if self.correction == "none" else self.alpha / len(self.claims)

    def marks(self) -> dict[str, str]:
        """What a seal holds: hashes of the file and of its table."""
        return {"claims": sha256(self.path), "table": sha256(table_file(self.table))}

    def make_seal(self, slots: Sequence[Slot]) -> Plain:
        """Write the seal; ConfigError where there is one, or a run of its rows has begun."""
        if self.seal.exists():
            told = "a seal is never renewed: state other claims in another file"
            raise ConfigError(f"{self.seal} exists; {told}")
        began = [slot for slot in slots if slot.row.id in self.rows and _begun(slot)]
        if began:
            where = f"{began[0].row.id}, seed {began[0].seed}"
            raise ConfigError(f"{self.name}: --seal comes before the first run; there is one: {where}")
        sealed = {**self.marks(), "sealed": datetime.now(UTC).isoformat(timespec="seconds")}
        made = {"schema": 1, **sealed, "commit": _commit(self.path.parent), "embedrun": __version__}
        publish(self.seal, (to_json(made) + "\n").encode())
        return made

    def standing(self) -> str:
        """Whether it is sealed, and is what was sealed, in a sentence."""
        if not self.seal.is_file():
            return "not sealed: nothing shows that the claims are older than the runs"
        with as_written(self.seal, "a seal of embedrun claims --seal", "restore it"):
            found = read_json(self.seal)
            when = f"{found['sealed']}, commit {found['commit'] or 'unknown'}"
            changed = [what for what, mark in self.marks().items() if found[what] != mark]
        if changed:
            return f"sealed {when}; changed since then: the file of the {' and the '.join(changed)}"
        return f"sealed {when}; unchanged"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def _begun(slot: Slot) -> bool:
    return any(run is not None for run in (slot.run, slot.unfinished, slot.passed_over))


def _commit(folder: Path) -> str | None:
    """The commit of a folder's repository, with `-dirty` if files differ from it; None outside of one."""
    asked = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    try:
        words = ("git", "-C", str(folder.resolve()), *asked)
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def read(path: str, table: str | None = None) -> Registration:
    """The claims of a file, of the table that it names or of another one; ConfigError with every fault."""
    file = checked(_File, expanded(path), path, path)
    own = expanded(path).parent / file.table
    if table is None:
        table = str(own) if file.table.endswith(FILE) and own.is_file() else file.table
    of = load(table)
    ids, headings = [row.id for row in of.rows], [column.heading for column in of.columns]
    faults = [] if file.statistic in headings else [f"statistic: no column {file.statistic!r}"]
    for place, one in enumerate(file.claims):
        where = f"claims[{place}]"
        for side in (one.better, one.worse):
            if side not in ids:
                faults.append(
                    f"{where}: no row {side!r}{nearest(side, ids)} (rows of {table}: {', '.join(ids)})"
                )
        if one.better == one.worse:
            faults.append(f"{where}: {one.better!r} on both sides")
        if one.statistic and one.statistic not in headings:
            faults.append(f"{where}: no column {one.statistic!r}{nearest(one.statistic, headings)}")
    names = [(one.group, one.name) for one in file.claims]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    faults += [f"claims: {names.count(name)} are {name[1]!r}" for name in twice]
    if not file.claims:
        faults.append("claims: none is stated")
    if faults:
        raise ConfigError([f"{path}: {fault}" for fault in faults])
    return Registration(**{**vars(file), "table": table, "of": of})
