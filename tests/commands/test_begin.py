"""What a run forgets where it goes on with other weights than it had scored."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from embedrun.experiment import training as module
from embedrun.experiment.training import Begin, begin, record
from embedrun.runs.directory import Run
from embedrun.training.loop import Begun, Selection
from embedrun.training.processes import Processes

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
    record(run, Begin(Begun(step=8), {}, []))
    assert kept(run) == set(STAGES)


@pytest.mark.parametrize(("step", "warnings"), [(8, ["the best so far, is gone"]), (6, []), (0, [])])
def test_scores_of_weights_that_are_gone_or_made_again_are_forgotten(run, step, warnings):
    record(run, Begin(Begun(step=step), {}, warnings))
    assert kept(run) == set()
    assert len(list(run.path.glob(".parts/untrained-*/a.part"))) == 2


@pytest.mark.parametrize(
    ("then", "said"),
    [("bf16", ["precision bf16 then, fp32 now"]), ("fp32", []), (None, [])],
)
def test_another_precision_is_a_difference(monkeypatch, then, said):
    state = {"stepper": {} if then is None else {"precision": then}}
    monkeypatch.setattr(module, "restore", lambda *_: (Begun(step=3), state))
    monkeypatch.setattr("embedrun.training.checkpoint.differences", lambda _: [])
    built = SimpleNamespace(stepper=SimpleNamespace(state=lambda: {"precision": "fp32"}))
    found = begin(built, Selection("a"), Path(), Path("step-00000003"), Processes())  # type: ignore[arg-type]
    assert [line.partition(":")[0] for line in found.warnings] == said
