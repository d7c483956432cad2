"""A packed table is recomputed from its predictions, and whatever was changed in it is found."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from made_jobs import in_this_process
from made_runs import made_run

from embedrun.launch import launcher

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

HEAD = "+experiment=quickstart"
TABLE = f"""\
title: Rates
seeds: [1, 2, 3]
shared: {{train: [{HEAD}]}}
columns: {{Test: toy_test/spearman}}
rows:
  - {{label: high, overrides: [training.lr=1e-3]}}
  - {{label: low, overrides: [training.lr=1e-4]}}
"""
CLAIMS = "table: mine.yaml\nstatistic: Test\nclaims:\n  - {name: high is better, better: high, worse: low}\n"


@pytest.fixture
def packed(embedrun) -> Path:
    """A pack of two rows with three seeds each, and of a sealed claim."""
    Path("mine.yaml").write_text(TABLE)
    Path("claims.yaml").write_text(CLAIMS)
    assert embedrun("claims", "claims.yaml", "--seal").code == 0
    for lr, noise in (("1e-3", 0.5), ("1e-4", 3.0)):
        for seed in (1, 2, 3):
            made_run(Path("outputs"), [HEAD, f"training.lr={lr}"], seed, noise=noise)
    ended = embedrun("pack", "mine.yaml", "claims.yaml", "-o", "pack.zip")
    assert ended.code == 0, ended.err
    shutil.rmtree("outputs")
    return Path("pack.zip")


def test_a_study_that_is_still_running_is_packed_with_what_its_claims_lack(embedrun):
    Path("mine.yaml").write_text(TABLE)
    Path("claims.yaml").write_text(CLAIMS)
    made_run(Path("outputs"), [HEAD, "training.lr=1e-3"], 1, noise=0.5)
    ended = embedrun("pack", "mine.yaml", "claims.yaml", "-o", "pack.zip")
    assert ended.code == 0, ended.err
    assert "the table is not complete: low: no run with seed 1, 2, 3" in ended.err
    with zipfile.ZipFile("pack.zip") as archive:
        lacking = archive.read("claims.txt").decode()
    assert "claims.yaml: high is better: 'high' and 'low' need two finished seeds each\n" in lacking
    ended = embedrun("verify", "pack.zip")
    assert ended.code == 0, ended.err
    assert lacking in ended.out


def test_a_pack_made_with_a_copy_of_the_model_is_verified_where_that_is_not(embedrun):
    whole, copy = "backbone.name=of/the-hub", "backbone.name=copy"
    Path("mine.yaml").write_text(TABLE.replace(HEAD, f"{HEAD}, backbone.scratch=null, {whole}"))
    Path("copy").mkdir()
    for seed in (1, 2, 3):
        made_run(Path("outputs"), [HEAD, "backbone.scratch=null", "training.lr=1e-3", copy], seed, noise=0.5)
    assert embedrun("pack", "mine.yaml", copy, "-o", "pack.zip").code == 0
    for folder in ("outputs", "copy"):
        shutil.rmtree(folder)
    ended = embedrun("verify", "pack.zip")
    assert ended.code == 0, ended.err
    assert "compared with nothing" not in ended.out


def repacked(pack: Path, change: Callable[[Path], None]) -> str:
    """The same pack after a change in its folder, with hashes that fit: its author has made it so."""
    folder = Path("opened")
    with zipfile.ZipFile(pack) as archive:
        archive.extractall(folder)
    change(folder)
    there = [path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"]
    manifest = json.loads((folder / "manifest.json").read_text())
    from embedrun.files import sha256

    manifest["files"] = {path.relative_to(folder).as_posix(): sha256(path) for path in there}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with zipfile.ZipFile("changed.zip", "w") as archive:
        for path in (*there, folder / "manifest.json"):
            archive.write(path, path.relative_to(folder))
    return "changed.zip"


def test_a_pack_is_verified_anywhere(embedrun, packed: Path):
    moved = Path("elsewhere/other.zip")
    moved.parent.mkdir()
    packed.rename(moved)
    ended = embedrun("verify", str(moved))
    assert ended.code == 0, ended.err
    assert "6 runs, 6 scores recomputed from predictions: all equal" in ended.err
    assert "; unchanged" in ended.err
    assert "high is better" in ended.out
    assert embedrun("pack", "mine.yaml", "-o", str(moved)).code == 2  # nothing is overwritten


def run_with(folder: Path, lr: float, seed: int) -> Path:
    (run,) = [
        path.parent
        for path in folder.rglob("config.yaml")
        if (config := yaml.safe_load(path.read_text()))["seed"] == seed and config["training"]["lr"] == lr
    ]
    return run


def change_a_prediction(folder: Path) -> None:
    path = run_with(folder, 1e-3, 2) / "predictions/toy_test.parquet"
    table = pq.read_table(path)
    score = table["score"].to_numpy().copy()
    score[np.argmin(score)] = score.max() + 1
    pq.write_table(table.set_column(table.column_names.index("score"), "score", [score]), path)


def change_a_clean_score(folder: Path) -> None:
    path = run_with(folder, 1e-4, 1) / "predictions" / "toy_test.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("clean", [[row % 2 == 0 for row in range(len(table))]]), path)
    results = json.loads((path.parents[1] / "results.json").read_text())
    results["scores"]["toy_test/spearman_clean"] = 12.5
    (path.parents[1] / "results.json").write_text(json.dumps(results))


def change_a_digit(folder: Path) -> None:
    path = folder / "table.md"
    text = path.read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("| low")]
    digit = next(letter for letter in line if letter.isdigit())
    path.write_text(text.replace(line, line.replace(digit, str((int(digit) + 1) % 10), 1)))


def swap_rows(folder: Path) -> None:
    path = folder / "mine.yaml"
    path.write_text(
        path.read_text().replace("high", "x").replace("low", "high").replace("label: x", "label: low")
    )


def change_the_configuration(folder: Path) -> None:
    path = run_with(folder, 1e-4, 3) / "config.yaml"
    path.write_text(path.read_text().replace("lr: 0.0001", "lr: 0.0003"))


def change_a_verdict(folder: Path) -> None:
    path = folder / "claims.txt"
    path.write_text(path.read_text().replace("  yes", "  no "))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (change_a_prediction, ["toy_test/spearman is ", "in results.json", "by its predictions"]),
        (change_a_clean_score, ["toy_test/spearman_clean is 12.5000 in results.json"]),
        (change_a_digit, ["printed '| low", "recomputed '| low"]),
        (
            lambda folder: shutil.rmtree(run_with(folder, 1e-3, 1)),
            ["high: no run with seed 1", "table.md, line"],
        ),
        (
            change_the_configuration,
            ["fills no cell; its configuration is that of no row", "low: no run with seed 3"],
        ),
        (swap_rows, ["table.md, line ", "changed since then: the file of the table"]),
        (change_a_verdict, ["claims.txt, line 3: printed 'high is better", "recomputed 'high is better"]),
    ],
)
def test_what_was_changed_is_found(embedrun, packed: Path, change, found: list[str]):
    ended = embedrun("verify", repacked(packed, change))
    assert ended.code == 1, ended.err
    for words in found:
        assert words in ended.err


def test_what_changed_after_packing_is_found_and_no_path_leaves_the_folder(embedrun, packed: Path):
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("runs/more.json", "{}")
    assert "differs: runs/more.json: was not packed with the others" in embedrun("verify", str(packed)).err
    for name in ("../out.json", "/tmp/out.json", "runs/code.py"):
        with zipfile.ZipFile("bad.zip", "w") as archive:
            archive.writestr(name, "{}")
        ended = embedrun("verify", "bad.zip")
        assert ended.code == 3
        assert f"has {name!r}, which no pack has" in ended.err
    Path("no.zip").write_text("no archive")
    assert embedrun("verify", "no.zip").code == 3


def test_a_drawn_run_is_trained_again_and_compared(embedrun, monkeypatch):
    monkeypatch.setattr(launcher, "run_in_child", in_this_process)
    short = [HEAD, "training.max_steps=4", "dataset.train_rows=64", "dataset.test_rows=60"]
    assert embedrun("train", *short).code == 0
    assert embedrun("pack", "outputs", "-o", "pack.zip").code == 0
    ended = embedrun("verify", "pack.zip", "--rerun", "1")
    assert ended.code == 0, ended.err
    assert "every score is the same as printed" in ended.err
    assert len(list(Path("outputs").rglob("results.json"))) == 2
    made = made_run(Path("made"), short, 42, noise=0.5)  # nobody has trained it
    elsewhere = {"cpu": {"type": "Abacus"}, "versions": {"torch": "0.1"}}
    (made / "environment.json").write_text(json.dumps(elsewhere))
    assert embedrun("pack", "made", "-o", "made.zip").code == 0
    ended = embedrun("verify", "made.zip", "--rerun", "1")
    assert ended.code == 1
    assert "toy_dev/spearman is " in ended.err
    assert ", packed 50.00" in ended.err
    assert "it was trained on Abacus with torch 0.1, and now on " in ended.err
