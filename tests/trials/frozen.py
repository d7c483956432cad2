"""What embedrun prints and writes, frozen, so that two commits can be held against each other.

    python tests/trials/frozen.py make DIR [CHECKOUT]    run the commands below with the code of a checkout
    python tests/trials/frozen.py compare DIR DIR        what differs, behind the filter; exit 1 if any does

Weights, metrics, scores, predictions, tables and configuration hashes are compared as they are. Of text, what
depends on clock, machine, folder, commit or the name of a module is filtered first.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from embedrun.cli import COMMANDS as WORDS

HERE = Path(__file__).resolve().parents[2]
QUICK = ["train", "+experiment=quickstart"]
SHORT = [*QUICK, "training.max_steps=8", "training.evaluate_every=4"]
FORMATS = ("md", "csv", "latex", "json")
COMMANDS: dict[str, list[str]] = {
    "help": ["--help"],
    **{f"help-{word}": [word, "--help"] for word in WORDS},
    "check-quickstart": ["check", "+experiment=quickstart"],
    "check-angle": ["check", "+experiment=angle_bert"],
    "check-raoe": ["check", "+experiment=raoe_s1_bert"],
    "check-arccse": ["check", "+experiment=arccse_bert", "training.lr=-1", "backbone.max_len=3"],
    "check-unknown": ["check", "+experiment=angel_bert"],
    "cfg": [*QUICK, "--cfg", "job"],
    "tables": ["table"],
    **{f"table-{format}": ["table", "angle/table4", "--format", format] for format in FORMATS},
    "figure": ["table", "arccse/figure4"],
    "dry-run": ["reproduce", "angle/table4", "--dry-run"],
    "dry-run-scale": ["reproduce", "raoe/table6", "--scale", "cpu_small", "--dry-run"],
    "train": [*QUICK, "training.max_steps=120", "training.evaluate_every=40", "hydra.run.dir=quick"],
    "sweep": [*SHORT, "-m", "seed=1,2"],
    "interrupted": [*SHORT, "hydra.run.dir=bad", "training.lr=1e30"],
    "evaluate": ["evaluate", "model=quick", "evaluation=heldout", "dataset=toy", "hydra.run.dir=scored"],
    "runs": ["runs"],
    "runs-json": ["runs", "--json"],
    "diff": ["runs", "--diff", "quick", "scored"],
    **{f"folder-{format}": ["table", "outputs", "--format", format] for format in FORMATS},
    "report": ["report", "quick", "-o", "page.html"],
    "encode": ["encode", "quick", "sentences.txt", "-o", "vectors.npy"],
    "export": ["export", "quick", "exported"],
    "tune": ["tune", *SHORT[1:], "training.lr=loguniform(1e-4,1e-2)", "--trials", "2"],
}
EXACT = {".safetensors", ".parquet", ".npy", ".png", ".jsonl"}
CLOCKED = {"speed.jsonl"}  # outside every claim of identity
STAMP = r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d"  # of a folder
FILTERS: tuple[tuple[str, str], ...] = (
    (r"(?m)^\w+ \d+/\d+ \w+, .* left.*\n", ""),  # how far the work was, every ten seconds
    (r"\d{4}-\d\d-\d\d[T_ ]\d\d[:\-]\d\d([:\-]\d\d)?([.,]\d+)?(\+\d\d:\d\d|Z)?", "TIME"),
    (r"\b\d{4}-\d\d-\d\d\b", "DAY"),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "TIME"),
    (r"\b\d[.,\d]*e\d+ operations a second", "SPEED operations a second"),
    (r"\b\d[\d,]*(\.\d+)?( ?(rows|steps|sentences|texts|tokens)?/s)\b", "RATE"),
    (r"\b\d[\d.,]*( to \d[\d.,]*)?\s?(s|ms|seconds?|minutes?|min|hours?)\b(\s\d+\ss\b)?", "SECONDS"),
    (r"\b[\d.]+\s(B|KiB|MiB|GiB|kB|MB|GB)\b", "SIZE"),
    (r'"worker_id":"[^"]+"', "WORKER"),
    (r"(?m)^(\d+,\w+,[\d.]+,[\d.]+),[\d.]+,", r"\1,SECONDS,"),  # of a study's table
    (r"\bpid \d+", "pid PID"),
    (r"embedrun(\.[a-z_]+)+", "MODULE"),
    (r"embedrun(/[a-z_]+)+\.py", "MODULE"),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    (r", with changes that are not in it", ""),  # of the checkout
    (r"(?m)^code\.(commit|dirty) .*\n", ""),
    (r", line \d+, in ", ", line N, in "),
)
VOLATILE = {
    "seconds",
    "minutes",
    "energy_kwh",
    "host",
    "pid",
    "started",
    "ended",
    "heartbeat",
    "commit",
    "dirty",
    "versions",
    "command",
    "platform",
}


def make(folder: Path, checkout: Path) -> None:
    """Run every command with the code of a checkout, in an empty folder."""
    work = folder / "work"
    work.mkdir(parents=True)
    said = folder / "said"
    said.mkdir()
    (work / "sentences.txt").write_text("a man plays a guitar\nthe dog sleeps\n", encoding="utf-8")
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("EMBEDRUN")},
        "PYTHONPATH": str(checkout),
        "XDG_CACHE_HOME": str((folder / "cache").resolve()),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
    }
    for name, arguments in COMMANDS.items():
        done = subprocess.run(
            [sys.executable, "-P", "-m", "embedrun", *arguments],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        text = f"exit {done.returncode}\n--- stdout\n{done.stdout}--- stderr\n{done.stderr}"
        places = {str(work.resolve()): "WORK", str(folder.resolve()): "FOLDER", str(checkout): "CHECKOUT"}
        for place, word in places.items():
            text = text.replace(place, word)
        (said / f"{name}.txt").write_text(text, encoding="utf-8")
        print(f"{done.returncode} {name}", flush=True)


def filtered(text: str) -> str:
    """The text without what depends on clock, machine, folder, commit or the names of modules."""
    for pattern, word in FILTERS:
        text = re.sub(pattern, word, text)
    return text


def plain(data: Any) -> Any:
    """JSON without its volatile keys."""
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items() if key not in VOLATILE}
    if isinstance(data, list):
        return [plain(value) for value in data]
    return filtered(data) if isinstance(data, str) else data


def restamped(text: str) -> str:
    """The text without the stamps of folders; what is left tells runs of one time apart by their hashes."""
    return re.sub(STAMP, "STAMP", text)


def shown(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, as it is compared."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name in CLOCKED or "cache" in path.relative_to(folder).parts[:1]:
            continue
        data = path.read_bytes()
        if path.suffix not in EXACT:
            text = data.decode("utf-8", "replace").replace(str(folder.resolve()), "FOLDER")
            text = restamped(text)
            if path.suffix == ".json":
                data = json.dumps(plain(json.loads(text)), indent=1).encode()
            else:
                data = filtered(text).encode()
        name = restamped(path.relative_to(folder).as_posix())
        while name in found:
            name += "+"
        found[name] = data
    return found


def compare(one: Path, other: Path) -> int:
    """Print what differs; 1 if anything does."""
    before, after = shown(one), shown(other)
    different = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    for name in different:
        a, b = before.get(name), after.get(name)
        print(f"== {name}" + (" (new)" if a is None else " (gone)" if b is None else ""))
        if a is not None and b is not None and Path(name.rstrip("+")).suffix not in EXACT:
            lines = difflib.unified_diff(a.decode().splitlines(), b.decode().splitlines(), lineterm="", n=0)
            print("\n".join(f"   {line[:300]}" for line in list(lines)[2:40]))
    print(f"{len(before)} files, {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    what, first, *rest = sys.argv[1:]
    if what == "make":
        shutil.rmtree(first, ignore_errors=True)
        make(Path(first), Path(rest[0]).resolve() if rest else HERE)
    else:
        sys.exit(compare(Path(first), Path(rest[0])))
