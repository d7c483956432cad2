"""`train`, `evaluate`, `tune` and `generate`, killed twenty times each, lose nothing."""

import csv
import gzip
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import forked
import pytest
import same_run
import small_models
from chat_server import Reply, serving
from killed_commands import Killed, Trial, killed

from embedrun.curation.generation import generate as generation
from embedrun.dataset.toy import Toy
from embedrun.experiment.scoring import Kept
from embedrun.launch import job
from embedrun.report import page
from embedrun.study.tune import study

pytestmark = pytest.mark.chaos
KILLS, SEED = 20, 7
NAMES = ("AnglE", "ArcCSE", "RAOE")
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


@pytest.mark.parametrize("name", NAMES)
def test_a_training_that_is_killed_ends_with_the_same_bytes(known, name, tmp_path, report):
    def typed(folder: Path) -> tuple[str, ...]:
        return ("resume", "run") if (folder / "run/config.yaml").is_file() else known[name].training()

    trial = Trial(typed, lambda folder: same_run.content(folder / "run"), by_change=True)
    hold(killed(trial, tmp_path, kills=KILLS, seed=SEED), f"train {name}", report)


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
        found = same_run.content(folder / "run")
        return {name: mark for name, mark in found.items() if name.startswith(("results", "predictions/"))}

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
