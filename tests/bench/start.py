"""What a command costs before its work begins: whole processes, from a cold start.

Run by `make bench-start`; MINILM=DIR has the model and EMBEDRUN_DATA=DIR STS-B. The first vector is
`embedrun encode` of one line, beside sentence-transformers, which loads the model and encodes the same
sentence; `check`, `table` of all tables over hundreds of made-up runs, and `reproduce --dry-run` have limits
of their own. All take turns, so that a slow moment of the machine meets all of them; the first round warms
the page cache.

Processor time is that of user and system, of the process and those it has waited for.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import arguments, finish, spread

from embedrun.table import names

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "trials"))
from many_runs import many  # noqa: E402, made-up runs, of the tests

SENTENCE = "A man is playing a guitar."
RUNS = 300
LIMITS = {"first vector": 2.0, "check": 2.0, "table": 3.0, "dry-run": 3.0}  # seconds of the processor
PEER_BAR = 2.8  # times sentence-transformers
PEER = """
import sys
from sentence_transformers import SentenceTransformer
SentenceTransformer(sys.argv[1], device="cpu").encode([sys.argv[2]])
"""


def commands(model: str, place: Path) -> dict[str, list[str]]:
    """The command line of each process."""
    ours = [sys.executable, "-P", "-m", "embedrun"]
    (place / "one.txt").write_text(f"{SENTENCE}\n")
    return {
        "first vector": [*ours, "encode", model, "one.txt", "-o", "one.npy", "--force"],
        "sentence-transformers": [sys.executable, "-P", "-c", PEER, model, SENTENCE],
        "import torch": [sys.executable, "-P", "-c", "import torch"],
        "check": [*ours, "check", "+experiment=angle_stsb", f"backbone.name={model}"],
        "table": [*ours, "table", *names(), "--outputs", "runs"],
        "dry-run": [*ours, "reproduce", "angle/table4", "--dry-run", f"backbone.name={model}"],
    }


def taken(command: Sequence[str], place: Path, surroundings: Mapping[str, str]) -> tuple[float, float]:
    """Seconds of the processor, and by the clock, of a process in that folder; its faults are shown."""
    begin = time.perf_counter()
    with (place / "said").open("w+") as said:
        process = subprocess.Popen(command, cwd=place, env=surroundings, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status):
            said.seek(0)
            sys.exit(f"{' '.join(command)}:\n{said.read()}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begin


def measured(model: str, rounds: int) -> dict[str, Any]:
    """All processes in turn."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        many(place / "runs", RUNS)
        surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
        surroundings.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has been compiled once
        surroundings["XDG_CACHE_HOME"] = str(place / "kept")
        wanted = commands(model, place)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in wanted}
        for _ in range(rounds + 1):  # the first warms up
            for name, command in wanted.items():
                times[name].append(taken(command, place, surroundings))
    every = {name: np.array(one[1:]) for name, one in times.items()}  # (rounds, 2) each
    found: dict[str, Any] = {
        name: {"processor": spread(one[:, 0]), "wall": spread(one[:, 1])} for name, one in every.items()
    }
    ratio = every["sentence-transformers"] / every["first vector"]  # (rounds, 2)
    found["sentence-transformers by first vector"] = {
        "processor": spread(ratio[:, 0]), "wall": spread(ratio[:, 1])
    }  # fmt: skip
    return found


def verdicts(results: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Whether each limit is kept, and in words."""
    for name, limit in LIMITS.items():
        median = results[name]["processor"]["median"]
        yield median <= limit, f"{name}: {median} s of {limit} s allowed"
    times = results["sentence-transformers by first vector"]["processor"]["median"]
    yield times >= PEER_BAR, f"first vector: {times} times as fast as sentence-transformers, bar {PEER_BAR}"


def main() -> int:
    asked = arguments(__doc__, rounds=5)
    results = measured(os.environ["MINILM"], asked.rounds)
    return finish(asked, {"runs": RUNS, "tables": len(names())}, results, list(verdicts(results)))


if __name__ == "__main__":
    sys.exit(main())
