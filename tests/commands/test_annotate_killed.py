"""Annotation of real pairs by a real teacher, killed at random moments."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from minilm import minilm_folder

ROOT = Path(__file__).resolve().parents[2]
PAIRS = 10_000  # of each of SNLI and MultiNLI
SHARDS = 4
Command = Callable[..., subprocess.Popen]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The first pairs of each collection, as a store."""
    for name in ("snli", "mnli"):
        file = f"nli/{name}_train_sample.jsonl.gz"
        lines = gzip.decompress((Path(os.environ["EMBEDRUN_DATA"]) / file).read_bytes()).splitlines(True)
        path = tmp_path / "data" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(b"".join(lines[:PAIRS])))
    return tmp_path / "data"


@pytest.fixture
def command(counted: None, tmp_path: Path, data: Path) -> Command:
    """Start `embedrun annotate` in a process of its own."""

    def begin(*arguments: str) -> subprocess.Popen:
        options = [
            f"teachers=[{{name: '{minilm_folder()}'}}]",
            f"data_dir={data}",
            "block_rows=500",
            "gpu=cpu",
            "gpu.threads=1",
        ]
        return subprocess.Popen(
            [sys.executable, "-m", "embedrun", "annotate", *options, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return begin


def ended(process: subprocess.Popen) -> str:
    """What a process that ran to its end has said."""
    said, _ = process.communicate(timeout=3600)
    assert process.returncode == 0, said
    return said


def parts(folder: Path) -> set[str]:
    return {path.name for path in (folder / "parts").glob("part-*")}


def content(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


@pytest.mark.slow
@pytest.mark.realdata
def test_four_shards_killed_at_five_moments_give_the_bytes_of_one_uninterrupted_process(command, tmp_path):
    started = time.monotonic()
    ended(command("output=whole"))
    print(f"uninterrupted: {time.monotonic() - started:.0f} s")
    whole = content(tmp_path / "whole")
    assert len(parts(tmp_path / "whole")) == 2 * PAIRS // 500

    moments, killed = random.Random(20), tmp_path / "killed"
    for shard in (0, 1, 2, 3, 0):
        before, more, rest = parts(killed), moments.randrange(1, 5), moments.uniform(0, 2)
        process = command("output=killed", f"shard={shard}/{SHARDS}")
        while len(parts(killed) - before) < more and process.poll() is None:
            time.sleep(0.05)
        time.sleep(rest)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        print(f"shard {shard} killed {rest:.2f} s after block {more}: {len(parts(killed))} blocks are done")
    assert 0 < len(parts(killed)) < len(parts(tmp_path / "whole"))
    shards = ",".join(f"{index}/{SHARDS}" for index in range(SHARDS))
    ended(command("-m", "output=killed", f"shard={shards}"))
    assert content(killed) == whole

    said = ended(command("output=killed"))
    assert "already complete, nothing to encode" in said
    found = json.loads((killed / "scores_by_label.json").read_text(encoding="utf-8"))
    means = {name: values["mean"] for name, values in found.items()}
    print(f"{means}, {time.monotonic() - started:.0f} s in all")
    assert means["entailment"] > means["neutral"] > means["contradiction"]
