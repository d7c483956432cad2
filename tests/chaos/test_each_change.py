"""Killed at each change of its files, one after the other, a run ends as one that was not."""

import shutil
from pathlib import Path

import pytest
import same_run
from killed_run import KilledRun, changes

# What every save must be killed at, by the change that comes next.
POINTS = {
    "after mkdir": "write .tmp-step-N/model.safetensors",
    "in the middle of the model": "tear .tmp-step-N/model.safetensors",
    "after the model": "write .tmp-step-N/optimizer.safetensors",
    "after the optimizer": "write .tmp-step-N/random.safetensors",
    "before the manifest": "write .tmp-step-N/manifest.json",
    "before the rename": "rename .tmp-step-N",
    "after the rename": "fsync .",
    "in the middle of a prune": "unlink .trash-step-N/model.safetensors",
    "at the end of a prune": "rmdir .trash-step-N",
}
DEBRIS = ("unlink .tmp-step-N/model.safetensors", "rmdir .tmp-step-N")  # of a save, when it is cleared
SHORT = 9, 3  # steps; from one checkpoint to the next


@pytest.mark.chaos
def test_a_kill_at_each_change_of_a_save_changes_no_byte(undisturbed, tmp_path: Path):
    dry, wet = tmp_path / "dry", tmp_path / "wet"
    dry.mkdir()
    wet.mkdir()
    each = changes(dry, *undisturbed.arguments)
    assert each[0] == "mkdir ."
    assert set(POINTS.values()) < set(each)
    killed = KilledRun(wet, undisturbed.arguments)
    for change in each[:4]:
        killed.at_change(change)  # there is no checkpoint to go on from yet
    killed.at_change("rmdir .trash-step-N")
    for change in each[1:]:
        killed.at_change(change)
    for change in DEBRIS:
        killed.at_change("rename .tmp-step-N")
        killed.at_change(change)
    killed.end()
    assert same_run.differences(killed.path, undisturbed.content) == []


@pytest.mark.chaos
@pytest.mark.parametrize("undisturbed", ["AnglE"], indirect=True)
def test_a_kill_at_each_change_of_the_end_of_a_run_changes_no_byte(undisturbed, tmp_path: Path):
    dry, wet = tmp_path / "dry", tmp_path / "wet"
    wet.mkdir()
    killed = KilledRun(wet, undisturbed.arguments, Path("run"))
    killed.at_change("mkdir .tmp-model")  # all is trained and scored
    shutil.copytree(wet, dry)
    each = changes(dry, "resume", "run", within=Path("run"))
    # The first two are changed at its beginning as well, and the page comes when the run has finished.
    others = ("status.json", "environment.json", "report.html")
    each = [change for change in each if not any(name in change for name in others)]
    assert {"rename .tmp-model", "replace .results.json.N", "rmdir .parts"} < set(each), each
    for change in each:
        killed.at_change(change)
    killed.end()
    assert same_run.differences(killed.path, undisturbed.content) == []


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("AnglE", ["after mkdir", "before the rename", "after the rename", "in the middle of a prune"]),
        pytest.param("ArcCSE", ["after the model"], marks=pytest.mark.slow),
        pytest.param("RAOE", ["before the manifest"], marks=pytest.mark.slow),
    ],
)
def test_a_short_run_that_is_killed_in_saves_and_between_them_ends_as_one_that_was_not(
    known, tmp_path: Path, name: str, points: list[str]
):
    whole, wet = tmp_path / "whole", tmp_path / "wet"
    whole.mkdir()
    wet.mkdir()
    arguments = known[name].training(steps=SHORT[0], every=SHORT[1])
    KilledRun(whole, arguments).end()
    killed = KilledRun(wet, arguments)
    *first, last = points
    killed.at_step(2)
    for point in first:
        killed.at_change(POINTS[point])
    killed.at_step(SHORT[0] - 1)
    killed.at_change(POINTS[last])
    killed.end()
    assert same_run.differences(killed.path, same_run.content(whole / "run")) == []
