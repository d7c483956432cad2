"""Rows that have the best of several settings: the choice is by dev score, never by test score."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from embedrun.errors import ConfigError
from embedrun.runs.reading import SELECTED_BY, RunFiles, at
from embedrun.table.cells import Measured, Slot


@dataclass(frozen=True)
class Chosen:
    """The slots of the settings that were chosen, and a sentence for each choice, by the id of its row."""

    slots: list[Slot]
    told: dict[str, list[str]] = field(default_factory=dict)


def chosen(slots: Sequence[Slot]) -> Chosen:
    """Of the cells that are settings of one row, that with the best mean dev score over their common seeds.

    Until each setting has finished with each of its seeds, nothing is chosen and their runs do not count.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Slot]] = {}
    for slot in slots:
        groups.setdefault((slot.row.id, slot.cell.headings), []).append(slot)
    made = Chosen([])
    counts = {row: len({slot.cell.choice for slot in group}) for (row, _), group in groups.items()}
    for (row, headings), group in groups.items():
        settings: dict[str, list[Slot]] = {}
        for slot in group:
            settings.setdefault(slot.cell.choice, []).append(slot)
        if settings.keys() == {""}:
            made.slots.extend(group)
        elif done := sum(all(slot.run is not None for slot in own) for own in settings.values()):
            told = made.told.setdefault(row, [])
            if done < len(settings):
                told.append(f"Best of {len(settings)} settings by dev score, of which {done} have finished")
                made.slots.extend(replace(slot, run=None) for slot in group)
            else:
                best, why = _best(settings)
                told.append(f"{', '.join(headings)}: {why}" if group[0].row.parts else why)
                if others := sorted({*counts.values()} - {counts[row]}):
                    tried = f"{counts[row]} settings, other rows {', '.join(map(str, others))}"
                    told.append(f"It was tried with {tried}: more trials alone raise the best score")
                made.slots.extend(settings[best])
        else:
            made.slots.extend(group)
    return made


def _best(settings: dict[str, list[Slot]]) -> tuple[str, str]:
    scores = {name: fmean(_dev(slot.run)[1] for slot in own if slot.run) for name, own in settings.items()}
    first = next(slot.run for own in settings.values() for slot in own if slot.run)
    lowest = bool(at(RunFiles(first.path).config, "training.select_lowest"))
    best = (min if lowest else max)(scores, key=lambda name: scores[name])
    listed = ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
    return best, f"{best} has the best {_dev(first)[0]} ({listed})"


def _dev(run: Measured) -> tuple[str, float]:
    """The dev score that chose the checkpoint of a run: its key and value; ConfigError if there was none."""
    key = str(at(RunFiles(run.path).results, f"notes.{SELECTED_BY}"))
    if key not in run.scores:
        raise ConfigError(f"{run.path}: best_of: no dev score chose its checkpoint; name dev rows")
    return key, run.scores[key]
