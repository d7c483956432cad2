"""Run directories with changed files, and those of other programs, read by every command that reads them."""

import json
import shutil
from importlib import import_module
from pathlib import Path
from random import Random

import fuzz
import pytest
import yaml

from embedrun.errors import EmbedrunError
from embedrun.experiment.scoring import Scorer
from embedrun.training.step import Stepper

JSON = ("status.json", "results.json", "environment.json", "contamination.json")
YAML = ("config.yaml", "overrides.yaml", "choices.yaml", ".parts/config.yaml")
LINES = ("metrics.jsonl", "speed.jsonl")


class Stopped(EmbedrunError):  # noqa: N818 - not a fault
    """What would take long begins here."""


@pytest.fixture
def runs(tiny, tmp_path, monkeypatch):
    """A finished run and one that stopped after its first checkpoint; nothing is trained or scored."""
    whole, part = tmp_path / "whole", tmp_path / "part"
    for folder in (whole, part):
        shutil.copytree(tiny.path, folder)
        shutil.rmtree(folder / "plots", ignore_errors=True)
        (folder / "report.html").unlink(missing_ok=True)
        (folder / "contamination.json").write_text('{"rule": "equal", "tasks": {"sts": {"rows": 1}}}')
        (folder / ".parts").mkdir(exist_ok=True)
        (folder / ".parts" / "config.yaml").write_bytes((folder / "config.yaml").read_bytes())
    (part / "results.json").unlink()
    status = json.loads((part / "status.json").read_text())
    (part / "status.json").write_text(json.dumps({**status, "state": "interrupted"}))

    def stop(*_: object, **__: object) -> None:
        raise Stopped("here the work would begin")

    monkeypatch.setattr(Stepper, "take", stop)
    monkeypatch.setattr(Scorer, "score", stop)
    monkeypatch.chdir(tmp_path)
    return whole, part


def changed(random: Random, folder: Path) -> None:
    """Change one file of a run, or two; or make it anew of nothing that fits."""
    every = (*JSON, *YAML, *LINES, "checkpoints", "predictions", "model")
    for name in random.sample(every, random.choice((1, 1, 2))):
        path = folder / name
        if name in ("checkpoints", "predictions", "model"):
            inside = [one for one in sorted(path.rglob("*")) if one.is_file()]
            if not inside:
                continue
            path = random.choice(inside)
            content = fuzz.data(random, path.read_bytes())
            if path.suffix == ".json" and random.random() < 0.8:
                content = fuzz.json_text(random, json.loads(path.read_bytes())).encode(
                    "utf-8", "surrogatepass"
                )
        elif not path.is_file():
            continue
        elif name in LINES:
            lines = path.read_text().splitlines()
            at = random.randrange(len(lines))
            lines[at] = fuzz.json_text(random, json.loads(lines[at])).replace("\n", " ")
            content = fuzz.text(random, "\n".join(lines) + "\n", more=1).encode("utf-8", "surrogatepass")
        elif name in JSON:
            content = fuzz.json_text(random, json.loads(path.read_text())).encode("utf-8", "surrogatepass")
        else:
            made = fuzz.yaml_text(random, yaml.safe_load(path.read_text()))
            content = made.encode("utf-8", "surrogatepass")
        path.unlink()
        fuzz.write(random, path, content)


WORDS = (
    ["runs", "a"],
    ["runs", "a", "--json"],
    ["runs", "a", "b", "--sort", "score", "--columns", "loss,seed,training.lr"],
    ["runs", "a", "--verify"],
    ["runs", "--diff", "a", "b", "--draws", "100"],
    ["runs", "--diff", "a", "--", "b"],
    ["report", "a", "-o", "a.html"],
    ["report", "a", "b", "-o", "both.html"],
    ["table", "a", "b", "--format", "csv"],
    ["table", "a", "--columns", "toy_test/spearman,seed", "--label", "loss"],
)
SLOW = (
    ["resume", "a"],
    ["evaluate", "a", "evaluation=heldout", "dataset=toy"],
    ["export", "a", "exported"],
)  # fmt: skip


@fuzz.sizes(few=12, many=2_000)
def test_run_directories(count, runs, tmp_path):
    def read(random: Random) -> None:
        for name in ("a", "b", "exported", "outputs"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
        words = random.choice(SLOW if random.random() < 0.2 else WORDS)
        for name in ("a", "b"):
            shutil.copytree(runs[words[0] == "resume" or random.random() < 0.2], tmp_path / name)
        changed(random, tmp_path / "a")
        import_module(f"embedrun.commands.{words[0]}").main(words[1:])

    fuzz.trial("run directories", count, read)
