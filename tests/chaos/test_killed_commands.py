"""`evaluate`, `tune`, `reproduce`, `generate` and `report`, killed twenty times each, lose nothing."""

import csv
import gzip
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import forked
import pytest
import same_run
import small_models
from chat_server import Reply, serving
from killed_commands import Killed, Trial, killed
from many_runs import many

from embedrun.curation.generation import generate as generation
from embedrun.dataset.toy import Toy
from embedrun.experiment.scoring import Kept
from embedrun.launch import job
from embedrun.report import overview, page
from embedrun.runs.directory import holds_nothing
from embedrun.study.tune import study

pytestmark = pytest.mark.chaos
KILLS, SEED = 20, 7
CPU = ("gpu=cpu", "gpu.threads=1")


@pytest.fixture(autouse=True)
def _imported(_quick_plots: None) -> None:
    pytest.importorskip("optuna")
    forked.warm_up()


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 16 dimensions."""
    return small_models.put(tmp_path_factory.mktemp("models") / "bert", "bert")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """STS-B of 64, 32 and 32 pairs, and its test pairs as STS12 and STS13."""
    folder, toy = tmp_path_factory.mktemp("store"), Toy(train_rows=64, dev_rows=32, test_rows=32)
    names = {"train": ["stsb/train"], "dev": ["stsb/dev"]}
    names["test"] = ["stsb/test", *(f"sts/sts{year}" for year in (12, 13))]
    for split, own in names.items():
        rows = toy.read(split)
        columns = zip(rows.targets["score"], rows.texts["left"], rows.texts["right"], strict=True)
        lines = [f"x\t{score}\t{left}\t{right}" for score, left, right in columns]
        text = "\n".join(["subset\tscore\tsentence1\tsentence2", *lines, ""])
        for name in own:
            path = folder / f"{name}.tsv.gz"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(text.encode()))
    return folder


def hold(found: Killed, name: str, report: Callable) -> None:
    """Each kill met a process at work, and nothing was lost, computed twice or different at the end."""
    report(f"killed {name}", f"{found.folders} folders", found.kills, [found.kept], not found.different)
    assert found.kills == KILLS
    assert (found.lost, found.different) == ([], [])


def files(folder: Path, *but: str) -> dict[str, str]:
    """SHA-256 of every file below a folder, but for some by their names; times in names are `TIME`."""
    stamp = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")
    return {
        stamp.sub("TIME", path.relative_to(folder).as_posix()): same_run.digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not (but and path.name.endswith(but))
    }


def content(run: Path) -> dict[str, object]:
    """A finished run, but for its page, which comes after its end: a trial or a cell may have none."""
    found = same_run.content(run)
    return {name: own for name, own in found.items() if not name.endswith(page.FILE)}


def marked(path: Path) -> object:
    """What tells that a file was written again, were it with the same bytes."""
    seen = path.stat()
    return seen.st_ino, seen.st_mtime_ns, seen.st_size


def test_an_evaluation_that_is_killed_scores_no_finished_piece_again(bert, store, tmp_path, report):
    def typed(folder: Path) -> tuple[str, ...]:
        run = folder / "run"
        arguments = (
            "evaluate", f"model='{bert}'", "evaluation=sts", f"data_dir='{store}'", *CPU, "hydra.run.dir=run",
            "evaluation.tasks.sts.sets=[sts12,sts13,stsb]",
        )  # fmt: skip
        if (run / "config.yaml").is_file():
            return ("resume", "run")
        if run.is_dir():  # killed before it had begun, which is said with what to do
            ended = forked.run(folder, *arguments)
            assert (ended.code, "holds nothing yet; delete it" in ended.said) == (2, True), ended.said
            shutil.rmtree(run)
        return arguments

    @contextmanager
    def around() -> Iterator[None]:
        save = Kept.save

        def saved(self: Kept, task: str, piece: str, found: Any) -> None:
            save(self, task, piece, found)
            with Path("scored.txt").open("a") as file:
                file.write(f"{piece}\n")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Kept, "save", saved)
            yield

    def finished(folder: Path) -> Counter[str]:
        path = folder / "scored.txt"
        return Counter(path.read_text().split() if path.exists() else [])

    def outcome(folder: Path) -> object:
        return same_run.content(folder / "run")

    trial = Trial(typed, outcome, finished, around=around, by_change=True)
    hold(killed(trial, tmp_path, kills=KILLS, seed=SEED), "evaluate", report)


def finished_runs(folder: Path) -> dict[str, object]:
    """Every file of the runs that have finished; the page of a run comes after its end."""
    found = {}
    for status in folder.glob("outputs/**/status.json"):
        if same_run.read(status)["state"] == "finished":
            own = [path for path in status.parent.rglob("*") if path.name != page.FILE]
            found |= {str(path): marked(path) for path in own if path.is_file()}
    return found


@contextmanager
def quick_jobs() -> Iterator[None]:
    """Jobs are forked, and looked at more often."""
    with forked.forked_jobs(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "POLL", 0.02)
        patch.setattr(job, "POLL", 0.02)
        yield


def test_a_search_that_is_killed_trains_no_finished_trial_again(options, tmp_path, report):
    def typed(_: Path) -> tuple[str, ...]:
        searched = ("training.lr=loguniform(1e-3,1e-1)", "training.evaluate_every=1", "--trials", "3")
        return ("tune", *options, *CPU, *searched, "--study", "s")

    def outcome(folder: Path) -> object:
        place = folder / "outputs/quickstart/tune/s"
        with (place / "study.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if row.pop("seconds")]
        trials = [content(path) for path in sorted(place.glob("trial-????"))]
        return rows, (place / "best.yaml").read_text(), trials, sorted(files(folder, page.FILE))

    trial = Trial(typed, outcome, finished_runs, around=quick_jobs, jobs="live")
    hold(killed(trial, tmp_path, kills=KILLS, seed=SEED), "tune", report)


def test_a_table_that_is_killed_runs_no_finished_cell_again(bert, store, tmp_path, report):
    def typed(_: Path) -> tuple[str, ...]:
        return (
            "reproduce", "angle/table4", "--only", "w/o ibn", "--only", "w/o angle", *CPU,
            f"data_dir='{store}'", f"backbone.name='{bert}'", "training.max_steps=4",
            "training.evaluate_every=2", "evaluation.tasks.sts.interval_draws=0",
            "backbone.max_length=64", "evaluation.max_length=64",
        )  # fmt: skip

    def outcome(folder: Path) -> object:
        for path in folder.glob("outputs/angle*/*"):
            if holds_nothing(path):  # killed before it had begun, and said to be deletable
                shutil.rmtree(path)
        runs = {path.parent.parent.name: path.parent for path in folder.glob("outputs/*/*/config.yaml")}
        # A cell that is told to end saves a checkpoint more, which is among those that are kept.
        found = {name: content(run) for name, run in runs.items()}
        found = {
            name: {file: own for file, own in one.items() if not file.startswith("checkpoints/")}
            for name, one in found.items()
        }
        return found, [name for name in files(folder, page.FILE) if "/checkpoints/" not in name]

    trial = Trial(typed, outcome, finished_runs, around=quick_jobs, jobs="end")
    hold(killed(trial, tmp_path, kills=KILLS, seed=SEED), "reproduce", report)


def test_a_generation_that_is_killed_asks_for_no_stored_answer_again(tmp_path, monkeypatch, report):
    monkeypatch.setattr(generation, "BLOCK", 5)
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def reply(prompt: str, _: int) -> Reply:
        time.sleep(0.02)
        text = prompt.partition("Input sentence: ")[2].removesuffix(". Output:")
        return Reply(f"1. {text} indeed\n2. never {text}")

    def lay(folder: Path) -> None:
        (folder / "in.txt").write_text("".join(f"sentence {number} stands here\n" for number in range(40)))

    with serving(reply) as chat:

        def typed(_: Path) -> tuple[str, ...]:
            llm = f"llms=[{{kind: http, url: '{chat.url}', model: m, parallel: 4}}]"
            return ("generate", "input=in.txt", "output=out", "size=2", *CPU, llm)

        def finished(folder: Path) -> dict[str, object]:
            asked: dict[str, object] = {}
            stored = folder / "out/responses/0-of-1.jsonl"
            for line in stored.read_text().splitlines() if stored.is_file() else ():
                with suppress(ValueError):  # half a line
                    prompt = json.loads(line)["prompt"]
                    asked[prompt] = chat.asked[prompt]
            return asked

        def outcome(folder: Path) -> object:
            return files(folder / "out", "0-of-1.jsonl")

        trial = Trial(typed, outcome, finished, lay, by_change=True)
        hold(killed(trial, tmp_path, kills=KILLS, seed=SEED), "generate", report)


OLD = "<!doctype html><p>old</p>"


def held_pages(trial: Trial, place: str, folder: Path) -> Killed:
    """Kill the writer of a page that lies over an old one, which is whole whenever the writer is killed."""
    seen = []

    def look(where: Path) -> dict[str, object]:
        seen.append((where / place).read_text(encoding="utf-8"))
        return {}

    found = killed(replace(trial, finished=look), folder, kills=KILLS, seed=SEED)
    assert set(seen) == {OLD, (folder / "whole" / place).read_text(encoding="utf-8")}
    return found


def test_the_page_of_a_run_is_the_old_or_the_new_one(tiny, tmp_path, report):
    def lay(folder: Path) -> None:
        shutil.copytree(tiny.path, folder / "run")
        (folder / "run" / page.FILE).write_text(OLD)

    trial = Trial(lambda _: ("report", "run"), lambda folder: files(folder / "run"), lay=lay, by_change=True)
    hold(held_pages(trial, f"run/{page.FILE}", tmp_path), "report", report)


def test_the_page_over_all_runs_is_the_old_or_the_new_one(tmp_path, monkeypatch, report):
    monkeypatch.setattr(overview, "now", lambda: "2026-01-01T00:00:00+00:00")
    many(tmp_path / "runs", 40, steps=200)

    def lay(folder: Path) -> None:
        shutil.copytree(tmp_path / "runs", folder / "outputs")
        (folder / "outputs" / overview.FILE).write_text(OLD)

    trial = Trial(
        lambda _: ("report", "outputs"), lambda folder: files(folder / "outputs"), lay=lay, by_change=True
    )
    hold(held_pages(trial, f"outputs/{overview.FILE}", tmp_path), "report over all runs", report)
