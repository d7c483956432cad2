"""A folder may hold files named like modules; no process of any command runs one of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from training_commands import Commands

from embedrun.launch.job import Job, run_in_child

NAMES = ("yaml", "typing", "torch", "numpy", "hydra")


@pytest.fixture
def full_of_traps() -> Path:
    """The current folder; each module there leaves its name in `ran` and fails."""
    folder = Path.cwd()
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'ran')!r}, 'a').write('{name} ')\nraise ImportError('a trap')\n"
        )
    return folder


@pytest.fixture
def commands(full_of_traps: Path) -> Iterator[Commands]:
    found = Commands(full_of_traps)
    yield found
    found.kill()


@pytest.mark.usefixtures("counted")
def test_a_job_runs_no_file_of_the_current_folder(full_of_traps: Path):
    outcome = run_in_child(Job("train", {"no": "such option"}), Path("outcome.json"))
    assert not (full_of_traps / "ran").exists()
    assert outcome.error is not None
    assert "without a result" not in outcome.error  # it came as far as to look at its options


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "-m", "seed=1,2"),
        ("train", "-m", "seed=1,2", "hydra/launcher=joblib"),
        ("train", "-m", "seed=1,2", "hydra/launcher=submitit_local"),
        ("train", "gpu.processes=2"),
        ("tune", "training.lr=loguniform(1e-4,1e-2)", "--trials", "1"),
    ],
    ids=["basic", "joblib", "submitit", "processes", "tune"],
)
def test_no_process_of_a_command_runs_a_file_of_the_current_folder(
    full_of_traps: Path, commands: Commands, options: tuple[str, ...], arguments: tuple[str, ...]
):
    word, *rest = arguments
    commands.done(word, *options, "gpu=cpu", *rest)
    assert not (full_of_traps / "ran").exists()


@pytest.mark.slow
def test_reproduce_runs_no_file_of_the_current_folder(full_of_traps: Path, commands: Commands):
    tiny = (
        "backbone=tiny",
        "backbone.max_length=32",
        "pooling=mean",
        "dataset=toy",
        "evaluation=none",
        "gpu=cpu",
    )
    steps = ("training.max_steps=2", "training.batch_size=8", "training.warmup_steps=0")
    commands.done("reproduce", "angle/table4", "--only", "w/o ibn", "--seeds", "1", *tiny, *steps)
    assert not (full_of_traps / "ran").exists()
    assert len(list((full_of_traps / "outputs").glob("*/*/results.json"))) == 1
