"""Tables of papers and reduced settings that were changed: printed, or priced by `reproduce --dry-run`."""

import shutil
from importlib import import_module
from random import Random

import fuzz
import pytest

from embedrun.config import presets
from embedrun.table.preset import load, load_scale

ROWS = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16")
TABLE = {
    "title": "A table",
    "paper": "angle",
    "source": "arXiv:2309.12871, Table 4",
    "kind": "table",
    "columns": {
        "STS-B": "sts/stsb/spearman",
        "MRPC": "toy_test/spearman",
        "Avg.": {"mean": ["MRPC", "STS-B"]},
        "Gain": {"difference": ["STS-B", "MRPC"]},
        "Memory": {"speed": "peak_memory_gb"},
        "Params": {"printed": True},
    },
    "shared": {"train": ["+experiment=quickstart", *ROWS]},
    "seeds": [42, 43],
    "tolerance": 0.5,
    "note": "a note",
    "unspecified": ["something"],
    "rows": [
        {"label": "w/o ibn", "group": "Objective", "overrides": ["loss=cosent"],
         "published": [86.0, 1, None, None, 2, "110M"]},
        {"label": "b", "kind": "quoted", "published": {"STS-B": 80.1}, "source": "another"},
        {"label": "c", "kind": "evaluate", "overrides": ["model=run:quickstart", "evaluation=sts"]},
        {"label": "d", "before": "a", "parts": {"MRPC": ["seed=3"], "STS-B": {"not_runnable": "reason"}}},
        {"label": "e", "not_runnable": "why"},
    ],
}  # fmt: skip
FIGURE = {
    "title": "A figure", "paper": "raoe", "source": "Figure 1", "kind": "figure",
    "columns": {"Score": "toy_dev/spearman"},
    "figure": {"x": "margin", "y": "toy_dev/spearman", "best": 10, "line": "rate", "best_line": 1},
    "rows": [{"label": str(x), "x": x, "line": 1, "overrides": ["+experiment=quickstart", *ROWS, f"seed={x}"],
              "published": [1.5]} for x in (1, 10)],
}  # fmt: skip
STATISTICS = {
    "title": "Counts", "paper": "angle", "source": "Table 1", "kind": "statistics",
    "columns": {"Train": {"statistic": True}, "Test": {"statistic": True}},
    "statistics": {"command": "embedrun collect output=DIR", "file": "provenance.json"},
    "rows": [{"label": "positive", "kind": "statistics", "keys": {"Train": ["splits/train/positive", "a/b"]},
              "published": [5, None]}],
}  # fmt: skip
SCALE = {"title": "less", "train": ["training.max_steps=1"], "evaluate": [], "seeds": [1]}


WORDS = (["table", "own/a"], ["reproduce", "own/a", "--dry-run"])


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """A copy of conf/ with one table and one reduced setting."""
    own = tmp_path / "conf"
    shutil.copytree(presets.folder(), own, ignore=shutil.ignore_patterns("table", "scale"))
    monkeypatch.setattr(presets, "folder", lambda: own)
    monkeypatch.setattr("embedrun.study.reproduce.cost.rate", lambda device, kind: 1e9)
    monkeypatch.delenv("EMBEDRUN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return own


@fuzz.sizes(few=20, many=1_000)
def test_tables(count, conf, monkeypatch):
    monkeypatch.setattr("embedrun.study.reproduce.cost.listing", lambda *_: "")  # reads the rows themselves
    for word, *rest in WORDS:  # what is imported and composed once for all
        (conf / "table/own").mkdir(parents=True, exist_ok=True)
        (conf / "table/own/a.yaml").write_text(fuzz.yaml.safe_dump(TABLE, sort_keys=False))
        import_module(f"embedrun.commands.{word}").main(rest)

    def read(random: Random) -> None:
        for name in ("table", "scale"):
            shutil.rmtree(conf / name, ignore_errors=True)
            (conf / name / "own").mkdir(parents=True)
        table = fuzz.yaml_text(random, random.choice(SOUND)).encode("utf-8", "surrogatepass")
        (conf / "table/own/a.yaml").write_bytes(fuzz.data(random, table) if random.random() < 0.1 else table)
        scaled = random.random() < 0.1
        if scaled:
            scale = fuzz.yaml_text(random, SCALE).encode("utf-8", "surrogatepass")
            (conf / "scale/less.yaml").write_bytes(scale)
            load_scale("less")
        more = ["--scale", "less"] if scaled else []
        how = random.random()
        if how < 0.4:
            load("own/a")
        elif how < 0.8:
            form = random.choice(("md", "csv", "latex", "json"))
            import_module("embedrun.commands.table").main(["own/a", "--format", form, *more])
        else:
            import_module("embedrun.commands.reproduce").main(["own/a", "--dry-run", *more])

    fuzz.trial("tables", count, read)


SOUND = (TABLE, TABLE, FIGURE, STATISTICS)


@pytest.mark.parametrize("words", WORDS, ids=lambda one: one[0])
@pytest.mark.parametrize("table", SOUND[1:], ids=lambda one: one["kind"])
def test_the_tables_that_are_changed_are_sound(conf, table, words, capsys):
    (conf / "table/own").mkdir(parents=True)
    (conf / "table/own/a.yaml").write_text(fuzz.yaml.safe_dump(table, sort_keys=False))
    word, *rest = words
    assert import_module(f"embedrun.commands.{word}").main(rest) == 0
