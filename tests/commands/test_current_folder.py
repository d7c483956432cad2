"""A folder may hold files named like modules; no process of any command runs one of them."""

import json
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

# All that a process may import, this package and the tests' own modules as well.
INSTALLED = {name for name in packages_distributions() if "/" not in name}  # newer Pythons name parts, too
NAMES = sorted({*sys.stdlib_module_names, *INSTALLED, "sitecustomize"})
# Commands that start processes of Python; for each the options of a small run stand after its first argument.
WITH_JOBS = (
    ("train", "-m", "seed=1"),
    ("train", "gpu.processes=2"),
)


@pytest.fixture
def full_of_traps() -> Path:
    """The current folder; each module there leaves its name in `ran` and fails."""
    folder = Path.cwd()
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'ran')!r}, 'a').write('{name} ')\nraise ImportError('a trap')\n"
        )
    return folder


# Each Python runs it before anything else, and ends there; joblib's keeper of semaphores is left to go on.
ENDS = """
import os, sys
with open({told!r}, "a") as file:
    unsafe = not sys.flags.safe_path or any(part in ("", ".", os.getcwd()) for part in sys.path)
    print("unsafe" if unsafe else "safe", *sys.orig_argv[1:], file=file)
if not any("resource_tracker" in part for part in sys.orig_argv):
    os._exit(3)
"""


@pytest.mark.parametrize("typed", WITH_JOBS, ids=" ".join)
def test_every_process_that_a_command_starts_leaves_out_the_current_folder(
    embedrun,
    tmp_path: Path,
    options: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    typed: tuple[str, ...],
):
    told, place = tmp_path / "told", tmp_path / "first"
    place.mkdir()
    (place / "sitecustomize.py").write_text(ENDS.format(told=str(told)))
    monkeypatch.setenv("PYTHONPATH", f"{place}::")  # an empty part is the current folder
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    word, *rest = typed
    ended = embedrun(word, *rest[:1], *options, "gpu=cpu", *rest[1:])
    assert ("exit code 3" in ended.err) or ended.code == 1, ended.err
    lines = told.read_text().splitlines()
    assert lines
    assert not [line for line in lines if not line.startswith("safe ")]


# As the console script: the current folder is on no path. Prints each command's exit code.
ALL = """
import sys
sys.path.pop(0)
import json
from embedrun.cli import main
print(json.dumps({words[0]: main(words) for words in json.loads(sys.argv[1])}))
"""


@pytest.mark.slow
def test_no_command_runs_a_file_of_the_current_folder(
    full_of_traps: Path, interpreter, options: tuple[str, ...]
):
    (full_of_traps / "texts.txt").write_text("A dog runs.\nIt rains.\n")
    typed = [
        ["train", *options, "hydra.run.dir=run"],
        ["resume", "run"],
        ["evaluate", "model=run", "dataset=toy", "evaluation=heldout"],
        ["annotate", "teachers=[{name: run}]", "dataset=toy", "dataset.train_rows=8", "output=annotated"],
        ["encode", "run", "texts.txt", "-o", "vectors.parquet"],
        ["export", "run", "exported"],
        ["report", "run"],
        ["runs", "."],
        ["check", *options],
    ]
    ended = interpreter(json.dumps(typed), code=ALL, cwd=full_of_traps)
    assert not (full_of_traps / "ran").exists(), (full_of_traps / "ran").read_text()
    codes = json.loads(ended.stdout.splitlines()[-1])
    assert codes == {words[0]: 0 for words in typed}, ended.stderr
