"""What two runs have in common if neither lost anything: every byte but those that depend on the clock."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

# When, how often and how fast. `results.json` is compared without its times and energy.
_OWN = (".lock", "environment.json", "report.html", "results.json", "run.log", "speed.jsonl", "status.json")


def content(run: Path) -> dict[str, Any]:
    """SHA-256 of every file of a finished run, by its name, and its results."""
    assert read(run / "status.json")["state"] == "finished"
    results = read(run / "results.json")
    del results["seconds"]
    del results["amounts"]["minutes"]
    del results["amounts"]["energy_kwh"]
    files = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file()}
    return {
        "results": results,
        **{name: digest(path) for name, path in sorted(files.items()) if name not in _OWN},
    }


def differences(run: Path, other: dict[str, Any]) -> list[str]:
    """Names of the files that are not those of another run."""
    own = content(run)
    return sorted(name for name in {**own, **other} if own.get(name) != other.get(name))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def metrics(run: Path) -> list[dict[str, Any]]:
    """The rows of `metrics.jsonl`."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def resumed(run: Path) -> list[int]:
    """The steps from which a run has gone on, in order; empty where there is none."""
    path = run / "environment.json"
    return [one["step"] for one in read(path).get("resumed", [])] if path.exists() else []


def same_weights(run: Path, other: Path) -> None:
    """The weights of two models, as one vector each, differ by at most 1e-5 of their length."""
    first, second = (load_file(path / "model" / "model.safetensors") for path in (run, other))
    assert first.keys() == second.keys()
    gap = np.concatenate([(first[name] - second[name]).ravel() for name in second])
    whole = np.concatenate([second[name].ravel() for name in second])
    assert np.linalg.norm(gap) <= 1e-5 * np.linalg.norm(whole)
