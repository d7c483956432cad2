"""One training: how it begins, what the clock says, how the model gets its name.

What a run forgets where it goes on with other weights than it had scored.

How the trained model gets its name.
"""

from pathlib import Path
from types import SimpleNamespace

import operations
import pytest

from embedrun.experiment import training
from embedrun.experiment.training import ResumePoint, note_resume_point, start_from
from embedrun.runs.directory import Run
from embedrun.training.loop import Selection, StepsDone
from embedrun.training.processes import Processes

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

STAGES = ("trained-test", "trained-dev")


@pytest.fixture
def run() -> Run:
    """Killed in the final scoring: the checkpoint of step 8, the last, and scores of the weights it chose."""
    run = Run.create("toy", {"seed": 1}, directory="run")
    run.start({"seed": 1}, [], {})
    run.status(checkpoint=8)
    (run.path / "metrics.jsonl").touch()
    for stage in (*STAGES, "untrained-test", "untrained-dev"):
        (run.path / ".parts" / stage).mkdir()
        (run.path / ".parts" / stage / "a.part").write_text("{}")
    return run


def kept(run: Run) -> set[str]:
    return {path.parent.name for path in run.path.glob(".parts/trained-*/*.part")}


def test_scores_of_the_same_weights_are_kept(run):
    note_resume_point(run, ResumePoint(StepsDone(step=8), {}, []))
    assert kept(run) == set(STAGES)


@pytest.mark.parametrize(("step", "warnings"), [(8, ["the best so far, is gone"]), (6, []), (0, [])])
def test_scores_of_weights_that_are_gone_or_made_again_are_forgotten(run, step, warnings):
    note_resume_point(run, ResumePoint(StepsDone(step=step), {}, warnings))
    assert kept(run) == set()
    assert len(list(run.path.glob(".parts/untrained-*/a.part"))) == 2


@pytest.mark.parametrize(
    ("then", "said"),
    [("bf16", ["precision bf16 then, fp32 now"]), ("fp32", [])],
)
def test_another_precision_is_a_difference(monkeypatch, then, said):
    state = {"stepper": {"precision": then}}
    monkeypatch.setattr(training, "restore", lambda *_: (StepsDone(step=3), state))
    monkeypatch.setattr(training.checkpoint, "differences", lambda _: [])
    built = SimpleNamespace(stepper=SimpleNamespace(state=lambda: {"precision": "fp32"}))
    found = start_from(built, Selection("a"), Path(), Path("step-00000003"), Processes())  # type: ignore[arg-type]
    assert [line.partition(":")[0] for line in found.warnings] == said


class Saves:
    def save(self, folder: Path) -> None:
        (folder / "pooling").mkdir(parents=True)
        (folder / "model.safetensors").write_text("weights")
        (folder / "pooling" / "config.json").write_text("{}")


def test_the_model_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(training.card, "card_text", lambda folder, **_: "a")
    monkeypatch.setattr(training, "made_of", lambda _: {})
    with operations.strike(0, operations.raise_killed, tmp_path) as done:
        training._publish(Saves(), {}, {}, tmp_path)  # type: ignore[arg-type]
    last = [change for change in done if change.split()[0] in ("fsync", "rename")]
    files = ("model.safetensors", "pooling/config.json", "README.md", "manifest.json", "pooling")
    assert set(last[:5]) == {f"fsync .tmp-model/{name}" for name in files}
    assert last[5:] == ["fsync .tmp-model", "rename .tmp-model", "fsync ."]
    assert (tmp_path / "model" / "pooling" / "config.json").is_file()
