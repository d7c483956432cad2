"""Runs that are shown elsewhere too: they give the same bytes, whatever becomes of that."""

import json
import time
from pathlib import Path

import broken_trackers
import pytest

SAME = ("metrics.jsonl", "model/model.safetensors")
BOTH = ("tracking.wandb={}", "tracking.tensorboard=true")


def hold_same(path: Path, other: Path) -> None:
    for name in SAME:
        assert (path / name).read_bytes() == (other / name).read_bytes(), name


def told(err: str) -> list[str]:
    """The warnings of trackers."""
    return sorted(
        line.partition("; training is")[0] for line in err.splitlines() if "warning: tracking" in line
    )


def test_trackers_that_hang_change_no_byte_of_a_run(embedrun, options, tiny, counted, monkeypatch):
    broken_trackers.lay(monkeypatch, "init", "hang")
    ended = embedrun("train", *options, *BOTH, "tracking.patience=1", "hydra.run.dir=run")
    run = Path("run")
    assert ended.code == 0, ended.err
    hold_same(run, tiny.path)
    assert told(ended.err) == broken_trackers.warnings("init", "hang", 1)
    log = (run / "run.log").read_text()
    assert log.count("warning: tracking.wandb: ") == log.count("warning: tracking.tensorboard: ") == 1
    assert json.loads((run / "status.json").read_text())["state"] == "finished"


@pytest.mark.slow
def test_the_real_trackers_show_what_the_run_wrote_and_keep_no_secret(
    embedrun, options, tiny, canaries, counted, monkeypatch
):
    for name, value in canaries.items():
        monkeypatch.setenv(name, value)
    started = time.monotonic()
    ended = embedrun("train", *options, *BOTH, "hydra.run.dir=run")
    assert time.monotonic() - started < 60
    run = Path("run")
    assert (ended.code, told(ended.err)) == (0, [])
    hold_same(run, tiny.path)
    files = [path for path in run.rglob("*") if path.is_file()]
    assert [
        path for path in files for value in canaries.values() if value.encode() in path.read_bytes()
    ] == []

    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (upload,) = run.glob("wandb/offline-run-*/run-*.wandb")
    sent = upload.read_bytes()
    names = {f"{row['split']}/{row['name']}" for row in rows}
    assert [name for name in names if name.encode() not in sent] == []
    assert (run / "wandb" / "id").read_text().strip() in upload.name
    assert b"quickstart" in sent
