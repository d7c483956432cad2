"""The runs of conf/table/study/objectives.yaml, published one by one, and the page of docs/results.md.

    EMBEDRUN_DATA=DIR MINILM=DIR scripts/study

A cell is a row with a seed. Its file in docs/results/objectives has what the page needs, and no folder of a
machine; a cell with a file of the same identity (configuration without seed and folders) is done. Others are
trained, two at a time, each on one thread; what a stop leaves unfinished is resumed. First come the runs that
choose each row's lr; where one is not the preset's, the script says which, and ends.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import yaml

from embedrun.dataset.nli import Nli
from embedrun.dataset.published import Stsb
from embedrun.evaluation.intervals import spearman_draws
from embedrun.evaluation.scores import spearman
from embedrun.evaluation.sts import SETS, Sts
from embedrun.experiment.contamination import Contamination
from embedrun.experiment.losses import idle
from embedrun.experiment.scoring import dataset_of
from embedrun.plot import save, subplots
from embedrun.rows import Rows
from embedrun.runs import listing
from embedrun.runs.directory import processor
from embedrun.store import Store
from embedrun.study import registration
from embedrun.study.claims import Decision, Scored, estimate
from embedrun.table.cells import Cells, Runs, Slot, measured
from embedrun.table.preset import load
from embedrun.training.order import Order

ROOT = Path(__file__).resolve().parents[1]
TABLE = "study/objectives"
PUBLISHED = ROOT / "docs/results/objectives"
CLAIMS = ROOT / "docs/results/claims.yaml"
PAGE = ROOT / "docs/results.md"
UNTRAINED = "Untrained/three layers"  # the row that all start from
MAIN = "STS-7"  # the column of the runs that are compared; the others choose the lr
DRAWS = 4000  # resamples of the rows
TOUCHED = ("angle", "angle_grouped")  # rows of which the page has the share with equal texts
STRICT = ("raoe", "raoe_s2")  # rows of which a claim leaves out STS-B train as well
SELECTS = "stsb_dev/spearman"
ON_ONE_THREAD = ("gpu=cpu", "gpu.threads=1")
SHARED_RATE = 3e-4  # of +experiment=study
RATES = (3e-5, 1e-4, 3e-4)
# The file of claims stays as it was before the first run; the page says what has been withdrawn since.
TITLES = {
    "As in the papers, labels against scores": "Labels, and RAOE on the scores of the uncut model",
    "With equal supervision, the teacher's scores": "On the teacher's scores; only RAOE reads labels too",
}
NOT_TESTED = {
    "mean over cls pooling": "not tested: the cut model's cls is constant",
    "ArcCSE over SimCSE, unsupervised": "not tested: the triplet term cannot act",
}
PLACEHOLDERS = ("backbone.name=MINILM", "model=MINILM")  # in place of a machine's folder
_PAGE, _FIRST = threading.Lock(), threading.Lock()


@dataclass(frozen=True)
class Cell:
    """A row of the table with a seed, or one of its runs that choose the lr.

    Args:
        name: of its file, with the seed behind it.
        rows: that it fills; several where they are one run.
        column: `MAIN`, or that of its lr.
    """

    name: str
    seed: int
    rows: tuple[str, ...]
    column: str
    slot: Slot

    @property
    def file(self) -> Path:
        """Where it is published."""
        return PUBLISHED / f"{self.name}-{self.seed}.json"

    @property
    def phase(self) -> int:
        """0 and 1 choose an lr, 1 for rows that start from a row with its lr chosen; 2 is compared."""
        return 2 if self.column == MAIN else int(bool(self.slot.needs))


def cells() -> list[Cell]:
    """All cells, each once, in the order in which they are to be run."""
    rows: dict[tuple[str, int], list[Slot]] = {}
    for slot in slots():
        rows.setdefault((slot.key, slot.seed), []).append(slot)
    first = {own.key for slot in slots() for own in slot.needs.values()}
    made = [_cell(each) for each in rows.values()]
    # Seed by seed, so that a stop leaves whole comparisons; what others start from is first, they are last.
    order = sorted(made, key=lambda cell: (bool(cell.slot.needs), cell.slot.key not in first))
    return sorted(order, key=lambda cell: (cell.phase, cell.seed))


def _cell(slots: Sequence[Slot]) -> Cell:
    first = slots[0]
    (name,) = [one[5:] for one in first.overrides if one.startswith("name=")][-1:] or ["study_raoe"]
    own = tuple(dict.fromkeys(slot.row.id for slot in slots))
    return Cell(name.removeprefix("study_"), first.seed, own, first.cell.headings[0], first)


def done(cell: Cell) -> dict[str, Any] | None:
    """What is published of a cell, if that is of its identity."""
    if not cell.file.is_file():
        return None
    found = json.loads(cell.file.read_text(encoding="utf-8"))
    return found if found["identity"] == cell.slot.key else None


def undone() -> list[Cell]:
    """The cells that are to be run."""
    return [cell for cell in cells() if done(cell) is None]


# What a run has.


@cache
def kept() -> dict[str, dict[str, np.ndarray]]:
    """Of each set, by `clean` and `strict`, which pairs are in the averages, bool, ``(pairs,)``."""
    store, sources = Store.find(), Sts().sources()
    scored = {"sts": {name: dataset_of(own, None).read(own.split, store) for name, own in sources.items()}}
    nli = Nli(labels=["entailment", "neutral", "contradiction"]).read("train", store)
    seen: list[Rows] = [Stsb().read("dev", store), nli]
    every = {"clean": seen, "strict": [*seen, Stsb().read("train", store)]}
    return {name: Contamination.find(own, scored).clean()["sts"] for name, own in every.items()}


def averages(run: Path, which: str, *, draws: int = 0) -> tuple[float, list[float]]:
    """Spearman x 100 over the kept pairs, the average of the seven sets; and that of so many resamples."""
    each, resampled = [], []
    for place, name in enumerate(SETS):
        table = pq.read_table(run / "predictions" / f"{name}.parquet")
        stays = kept()[which][name]  # (pairs,)
        gold, score = (table[column].to_numpy()[stays] for column in ("gold", "score"))  # (kept,) each
        each.append(100 * spearman(score, gold))
        if draws:
            resampled.append(100 * spearman_draws(score, gold, draws=draws, seed=[0, place]))  # (draws,)
    return float(np.mean(each)), np.round(np.mean(resampled, axis=0), 2).tolist() if draws else []


def published(cell: Cell, run: Path, memory: int | None) -> dict[str, Any]:
    """What is kept of a run; `memory` is the most that it had, in MiB, None for an evaluation."""
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    found: dict[str, Any] = {
        "identity": cell.slot.key,
        "rows": list(cell.rows),
        "column": cell.column,
        "seed": cell.seed,
        "options": [one for one in cell.slot.overrides if not one.startswith("name=")],
        "commit": said("git", "rev-parse", "--short=10", "HEAD"),
        "machine": f"{processor()}, {config['gpu']['threads']} thread, torch {version('torch')}",
        "scores": {key: round(value, 4) for key, value in results["scores"].items() if _is_shown(key)},
        "counts": {key: value for key, value in results["counts"].items() if "." not in key},
        "seconds": results["seconds"],
    }
    if memory is not None:
        found |= of_training(run, config, memory)
    if cell.column == MAIN:
        for which in ("clean", "strict") if cell.name in STRICT else ("clean",):
            mean, draws = averages(run, which, draws=DRAWS)
            pairs = sum(int(stays.sum()) for stays in kept()[which].values())
            found |= {which: round(mean, 4), f"{which} pairs": pairs, f"{which} draws": draws}
        if cell.name in TOUCHED:
            found["touched"] = round(touched(config), 6)
    return found


def touched(config: Mapping[str, Any]) -> float:
    """The share of training rows with a text that occurs a second time in its batch."""
    rows, training = Nli().read("train", Store.find()), config["training"]
    texts = np.stack(list(rows.distinct(["left", "right"])[1].values()), axis=1)  # (rows, 2)
    order = Order(
        len(rows), training["batch_size"], 1, config["seed"], batching=training["batching"], texts=texts
    )
    shares = []
    for step in range(1, training["max_steps"] + 1):
        (draw,) = order.batches(step)
        _, which, counts = np.unique(texts[draw.rows], return_inverse=True, return_counts=True)
        shares.append((counts[which.reshape(-1, 2)] > 1).any(axis=1).mean())  # which: (batch, 2)
    return float(np.mean(shares))


def _is_shown(key: str) -> bool:
    """Whether a score is that of a whole set, in the papers' aggregation."""
    return "." not in key and key.endswith("/spearman")


def of_training(run: Path, config: Mapping[str, Any], memory: int) -> dict[str, Any]:
    """Rows, tokens, steps and dev scores of a training."""
    metrics, speed = (
        [json.loads(line) for line in (run / name).read_text(encoding="utf-8").splitlines()]
        for name in ("metrics.jsonl", "speed.jsonl")
    )
    steps, lr = config["training"]["max_steps"], config["training"]["lr"]
    rows = steps * config["training"]["batch_size"]
    tokens = sum(one["tokens_per_second"] for one in speed) / sum(one["rows_per_second"] for one in speed)
    dev = [one for one in metrics if one["name"] == SELECTS]
    dataset = config["dataset"]
    texts = {"wiki1m": 1}.get(dataset["name"], 3 if dataset.get("form") == "triplet" else 2)
    return {
        "training": {
            "rows": rows,
            "texts": texts,
            "tokens": round(rows * tokens),
            "steps": steps,
            "lr": lr,
            "MiB": memory,
        },
        "dev": [[one["step"], round(one["value"], 4)] for one in dev],
        "idle": [line.partition(":")[0] for line in idle(metrics)],
    }


def said(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


# Running.


def embedrun(*words: str) -> int:
    """Run a command; the most memory that its process had, in MiB.

    Raises:
        SystemExit: where it does not end well.
    """
    print(shlex.join(["embedrun", *words]).replace(os.environ["MINILM"], "MINILM"), flush=True)
    log, command = ROOT / "outputs/study.log", [sys.executable, "-P", "-m", "embedrun", *words]
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"it ended with exit code {process.returncode}; see {log.relative_to(ROOT)}")
    return round(usage.ru_maxrss / 1024)


def annotate() -> None:
    """The teacher's scores of all pairs of NLI, and of those that are not neutral."""
    teacher = f"teachers=[{{name: {os.environ['MINILM']}}}]"
    for folder, words in (("scored", ()), ("scored_without_neutral", ("dataset=nli",))):
        if not (ROOT / "outputs/study" / folder / "nli_scored.jsonl.gz").is_file():
            embedrun("annotate", f"output=outputs/study/{folder}", teacher, *words)


def run(cell: Cell) -> None:
    """Train or evaluate what a cell asks for, and publish it."""
    first = {name: str(trained(slot)) for name, slot in cell.slot.needs.items()}
    words = [_with_models(one, first) for one in cell.slot.overrides]
    resume = ["training.resume=auto"] if cell.slot.cell.command == "train" else []
    memory = embedrun(cell.slot.cell.command, *words, *resume)
    path = finished(cell.slot)
    assert path is not None, "it has ended well"
    found = published(cell, path, memory if resume else None)
    if resume and cell.column == MAIN:
        found["last clean"] = last(path, found["dev"], found["clean"])
    cell.file.parent.mkdir(parents=True, exist_ok=True)
    cell.file.write_text(as_json(found), encoding="utf-8")


def as_json(found: Mapping[str, Any]) -> str:
    """One line for each entry."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
    return f"{{\n{lines}\n}}\n"


def _with_models(override: str, first: Mapping[str, str]) -> str:
    """An override with folders in place of the names of models and of runs."""
    key, _, value = override.partition("=")
    if value == "MINILM":
        return f"{key}={os.environ['MINILM']}"
    return f"{key}={first[value[4:]]}" if value.startswith("run:") else override


def trained(slot: Slot) -> Path:
    """The run that another one starts from, which is trained where it is not there."""
    with _FIRST:
        if (path := finished(slot)) is None:
            embedrun("train", *(_with_models(one, {}) for one in slot.overrides), "training.resume=auto")
            path = finished(slot)
    assert path is not None, "it has ended well"
    return path


def finished(slot: Slot) -> Path | None:
    """The newest finished run of this machine with the identity of a slot."""
    found = Runs(measured(listing.find([ROOT / "outputs"]).runs)).finished(here()[slot.key], slot.seed)
    return found[0].path if found else None


@cache
def here() -> dict[str, str]:
    """By the identity of each slot, and of what it needs: that with the folders of this machine."""
    keys = []
    for extra in (
        PLACEHOLDERS,
        tuple(f"{one.partition('=')[0]}={os.environ['MINILM']}" for one in PLACEHOLDERS),
    ):
        own = Cells([], extra=extra)
        each = own.find(load(TABLE), own.asked(load(TABLE)))
        keys.append([one.key for slot in each for one in (slot, *slot.needs.values())])
    return dict(zip(*keys, strict=True))


@cache
def slots() -> list[Slot]:
    """The slots of the table without a machine's folders."""
    table, found = load(TABLE), Cells([], extra=PLACEHOLDERS)
    return found.find(table, found.asked(table))


def last(path: Path, dev: Sequence[tuple[int, float]], selected: float) -> float:
    """The average without shared pairs of the last checkpoint; `selected` where that is the selected one."""
    steps, values = zip(*(one for one in dev if one[0] > 0), strict=True)
    if values.index(max(values)) == len(steps) - 1:
        return selected
    model, name = f"{path}/checkpoints/step-{steps[-1]:08}", f"study_last_{path.name}"
    embedrun("evaluate", f"model={model}", *ON_ONE_THREAD, "evaluation.max_length=512", f"name={name}")
    (found,) = ROOT.glob(f"outputs/{name}/*/results.json")
    return round(averages(found.parent, "clean")[0], 4)


def publish(cell: Cell, *, commit: bool) -> None:
    """Run a cell; its file is in the repository at once, and its numbers on the page."""
    run(cell)
    with _PAGE:
        write()
        if commit:
            said("git", "add", str(cell.file))
            told = f"Study: {cell.rows[0]}, {cell.column}, seed {cell.seed}"
            said("git", "commit", "-m", told, str(cell.file), str(PAGE))


def run_all(missing: Sequence[Cell], jobs: int, *, commit: bool) -> None:
    """Run and publish so many at a time; after one that fails, and after Ctrl-C, no other is begun."""
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for future in [pool.submit(publish, cell, commit=commit) for cell in missing]:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# The page.

Found = Mapping[str, Sequence[Mapping[str, Any]]]  # what is published of each row, by its id


def all_done() -> Found:
    """Everything that is published."""
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in cells():
        if (own := done(cell)) is not None:
            for row in cell.rows:
                found.setdefault(row, []).append(own)
    return found


def compared(found: Found, row: str) -> list[Mapping[str, Any]]:
    """The runs of a row that are compared."""
    return [one for one in found.get(row, ()) if one["column"] == MAIN]


def rates(found: Found, row: str) -> dict[float, float]:
    """The best dev score of a row by lr; empty until each that the table asks for has been tried."""
    tried = [one for one in found.get(row, ()) if one["column"] != MAIN]
    best = {one["training"]["lr"]: max(value for step, value in one["dev"] if step) for one in tried}
    asked = {
        float(slot.cell.headings[0].removeprefix("dev, "))
        for slot in slots()
        if slot.row.id == row and slot.cell.headings != (MAIN,)
    }
    return {lr: best[lr] for lr in RATES if lr in asked} if asked <= {*best} else {}


def wrong_rates(found: Found) -> list[str]:
    """Rows whose lr in the preset is not the best of those that were tried."""
    wrong = []
    for row in dict.fromkeys(slot.row.id for slot in slots() if slot.cell.headings == (MAIN,)):
        tried = rates(found, row)
        if tried and (best := max(tried, key=lambda lr: tried[lr])) != preset_rate(row):
            wrong.append(f"{row}: {best:g}, not {preset_rate(row):g}")
    return wrong


def compared_slot(row: str) -> Slot:
    """A compared run of a row."""
    return next(slot for slot in slots() if slot.row.id == row and slot.cell.headings == (MAIN,))


def preset_rate(row: str) -> float:
    """The lr of the compared runs of a row."""
    own = compared_slot(row)
    given = [one.partition("=")[2] for one in own.overrides if one.startswith("training.lr=")]
    return float(given[-1]) if given else SHARED_RATE


def decisions(found: Found) -> list[tuple[str, list[Decision]]]:
    """What became of the claims whose rows are there, decided together, by the title of their group."""
    file = registration.read(str(CLAIMS))
    runs = file.runs_of_files([one for row in found for one in compared(found, row)])
    both = zip(file.claims, file.stated, strict=True)
    there = [one for one, claim in both if runs[claim.better] and runs[claim.worse]]
    groups: dict[str, list[Decision]] = {}
    for one, decision in zip(there, replace(file, claims=there).decide(runs), strict=True):
        groups.setdefault(TITLES.get(one.group, one.group), []).append(decision)
    return [*groups.items()]


_HEAD = ("lr", "texts", "rows", "tokens", "steps", "minutes", "MiB", "STS-7", "not shared", "last checkpoint")


def page(found: Found, missing: int = 0) -> str:
    """The tables and plots of the study, in Markdown; its claims once no run is missing."""
    lines, group = [_line("row", *_HEAD), _line("---", *["--:"] * len(_HEAD))], ""
    rows = load(TABLE).rows
    for row in rows:
        if row.group != group:
            group = row.group
            lines.append(_line(f"**{group}**", *[""] * len(_HEAD)))
        if any(MAIN in cell.headings for cell in row.cells):
            lines.append(_line(labelled(row.id)[1], *_numbers(compared(found, row.id))))
    lines += _best_rates(found)
    if missing:
        lines += ["", f"{missing} of {len(cells())} runs are missing; claims are decided when none is."]
    lines += _of_all([one for row in rows for one in found.get(row.id, ())])
    for row in rows:
        for name in dict.fromkeys(name for one in compared(found, row.id) for name in one.get("idle", ())):
            term = name.rpartition(".")[2]
            lines += ["", f"{row.label}: the term {term} was 0 at every logged step of a run."]
        if shares := [100 * one["touched"] for one in compared(found, row.id) if "touched" in one]:
            told = "of its rows have a text that occurs a second time in its batch,"
            told += " which AnglE's rule for equal texts affects."
            lines += ["", f"{row.label}: {np.mean(shares):.2f} % {told}"]
    for number, (title, own) in enumerate([] if missing else decisions(found), 1):
        lines += ["", f"### {title}", "", f"![{title}](results/claims-{number}.png)", ""]
        lines += [_line("claim", "by seed", "mean", "interval", "p", "verdict")]
        lines += [_line("---", "---", "--:", "--:", "--:", "---")]
        lines += map(_decided, own)
    return "\n".join(lines) + "\n"


def _best_rates(found: Found) -> list[str]:
    """The table of the best dev score of each row by lr."""
    lines = ["", "The best dev score of each lr:", ""]
    lines += [_line("row", *(f"{lr:g}" for lr in RATES)), _line("---", *["--:"] * len(RATES))]
    for row in load(TABLE).rows:
        if tried := rates(found, row.id):
            best = max(tried.values()) if len(tried) > 1 else None
            values = (f"**{one:.2f}**" if one == best else f"{one:.2f}" for one in tried.values())
            values = dict(zip(tried, values, strict=True))
            lines.append(_line(": ".join(labelled(row.id)), *(values.get(lr, "-") for lr in RATES)))
    return lines


def _of_all(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Time, machines and pairs of the runs, each once."""
    once = {(one["identity"], one["seed"]): one for one in runs}.values()
    hours = sum(sum(one["seconds"].values()) for one in once) / 3600
    machines = "; ".join(sorted({one["machine"] for one in once}))
    lines = []
    if runs:
        began = runs[0]["commit"]  # floors and ceilings come first
        lines.append(f"{len(once)} runs, {hours:.1f} hours of one thread, on {machines}; begun at {began}.")
    for which, sets in (("clean", "STS-B dev and NLI"), ("strict", "these and STS-B train")):
        if pairs := [one[f"{which} pairs"] for one in once if f"{which} pairs" in one]:
            lines.append(f"Not shared with {sets}: {pairs[0]:,} pairs.")
    return [line for one in lines for line in ("", one)]


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _numbers(own: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns behind the label of a row, from its compared runs."""
    if not own:
        return ["-"] * len(_HEAD)
    facts = ["-"] * 7
    if training := [one["training"] for one in own if "training" in one]:
        first, tokens = training[0], np.mean([one["tokens"] for one in training])
        minutes, memory = np.mean([one["seconds"]["train"] / 60 for one in own]), training[0]["MiB"]
        counts = (
            f"{first['rows']:,}",
            f"{tokens:,.0f}",
            f"{first['steps']}",
            f"{minutes:.1f}",
            f"{memory:,}",
        )
        facts = [f"{first['lr']:g}", str(first["texts"]), *counts]
    scores = [[one["scores"]["sts/avg/spearman"] for one in own], [one["clean"] for one in own]]
    scores.append([one["last clean"] for one in own if "last clean" in one])
    return [*facts, *map(_spread, scores)]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread} ({len(values)})"


def _decided(one: Decision) -> str:
    each = ", ".join(f"{value:+.2f}" for value in one.each.values()) or "not paired"
    *numbers, verdict = one.cells()
    return _line(one.claim.name, each, *numbers, NOT_TESTED.get(one.claim.name, verdict))


BEGIN = "<!-- from here on made by scripts/study of docs/results/objectives -->"
END = "<!-- to here -->"


def renewed(text: str, found: Found, missing: int = 0) -> str:
    """The page with what is between the marks made anew."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{page(found, missing)}\n{END}{rest.partition(END)[2]}"


def write() -> None:
    """Make the page anew."""
    text = renewed(PAGE.read_text(encoding="utf-8"), all_done(), len(undone()))
    PAGE.write_text(text, encoding="utf-8")


def labelled(row: str) -> tuple[str, str]:
    """The group and the label of a row, as shown."""
    group, _, label = row.partition("/")
    return group, f"{label}, weights 1/1/1 (assumed)" if label == "AnglE" else label


def _shown(side: str) -> str:
    row, _, which = side.rpartition("|")
    return ": ".join(labelled(row)) + ("" if which == "clean" else ",\nwithout pairs of STS-B train")


def draw(found: Found) -> None:
    """A plot for each group of claims: its rows with the seeds as points, mean and 95 % interval."""
    order = [f"{row.id}|{which}" for row in load(TABLE).rows for which in ("clean", "strict")]
    untrained = found[UNTRAINED][0]["clean"]
    for number, (title, own) in enumerate(decisions(found), 1):
        sides = sorted({side for one in own for side in (one.claim.worse, one.claim.better)}, key=order.index)
        figure, (axis,) = subplots(1, 1, (9, 1.2 + 0.45 * len(sides)), title)
        for place, side in enumerate(sides):
            row, _, which = side.rpartition("|")
            runs = [one for one in compared(found, row) if which in one]
            scores = [one[which] for one in runs]
            ends = estimate([Scored(one[which], np.array(one[f"{which} draws"])) for one in runs]).interval()
            axis.plot(ends, (place, place), color="0.6", linewidth=5, solid_capstyle="butt", zorder=1)
            axis.plot(scores, [place] * len(scores), "o", color="white", markeredgecolor="black", zorder=2)
            axis.plot([np.mean(scores)], [place], "|", color="black", markersize=18, zorder=3)
        least, most = axis.get_xlim()
        if least < untrained < most:
            axis.axvline(untrained, color="0.4", linestyle="--", linewidth=1, zorder=0)
            axis.text(untrained, -0.7, " untrained", color="0.3", verticalalignment="center")
        axis.set(xlabel="STS-7 without shared pairs, Spearman x 100", ylim=(len(sides) - 0.5, -1))
        axis.set_yticks(range(len(sides)), [_shown(side) for side in sides])
        save(figure, ROOT / f"docs/results/claims-{number}.png")


def main() -> int:
    """Run what is missing and write the page; 1 where an lr has to be chosen first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--commit", action="store_true", help="commit each cell as it is published")
    parser.add_argument("--list", action="store_true", help="what is done and what is not, and run nothing")
    asked = parser.parse_args()
    if asked.list:
        for cell in cells():
            print("done   " if done(cell) else "missing", cell.file.stem, "; ".join(cell.rows))
        return 0
    annotate()
    here()  # once, and not in each thread
    for phase in (0, 1, 2):
        run_all([cell for cell in undone() if cell.phase == phase], asked.jobs, commit=asked.commit)
        if wrong := wrong_rates(all_done()):
            print("another lr is best; write it into conf/table/study/objectives.yaml:", *wrong, sep="\n  ")
            return 1
    write()
    draw(all_done())
    return 0


if __name__ == "__main__":
    sys.exit(main())
