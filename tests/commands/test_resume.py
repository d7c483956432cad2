import json
import os
import signal
import time
from pathlib import Path

import pytest
import yaml

from embedrun.experiment.scoring import Kept
from embedrun.runs.directory import Run

SMALL = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16", "gpu=cpu", "gpu.threads=1")
# Two pieces: the test split and the dev split of the toy data.
TWO = ("evaluation=heldout", "dataset=toy", "+evaluation.tasks.dev={name: heldout, split: dev}", *SMALL)


@pytest.fixture
def interrupted(embedrun, tiny, monkeypatch) -> Path:
    """An evaluation that ended with Ctrl-C after its first piece."""
    save = Kept.save

    def once(self: Kept, *found) -> None:
        save(self, *found)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Kept, "save", once)
        ended = embedrun("evaluate", f"model='{tiny.path}'", *TWO, "hydra.run.dir=part")
    assert ended.code == 130
    assert "embedrun resume part goes on" in ended.err
    assert json.loads(Path("part/status.json").read_text())["state"] == "interrupted"
    return Path("part")


def scores(folder: Path | str) -> dict:
    found = json.loads((Path(folder) / "results.json").read_text())
    return {key: found[key] for key in ("main", "scores", "intervals", "counts")}


def test_a_resumed_evaluation_ends_as_an_uninterrupted_one_and_scores_only_the_rest(
    embedrun, tiny, interrupted, monkeypatch
):
    saved = []
    save = Kept.save
    monkeypatch.setattr(Kept, "save", lambda self, *found: (saved.append(found[0]), save(self, *found))[1])
    ended = embedrun("resume", interrupted)
    assert ended.code == 0, ended.err
    assert saved == ["dev"]
    status = json.loads((interrupted / "status.json").read_text())
    assert status["state"] == "finished"
    assert {"started", "resumed", "ended"} <= status.keys()
    assert embedrun("evaluate", f"model='{tiny.path}'", *TWO, "hydra.run.dir=whole").code == 0
    assert scores(interrupted) == scores("whole")
    assert sorted(path.name for path in interrupted.iterdir()) == sorted(
        path.name for path in Path("whole").iterdir()
    )
    assert not (interrupted / ".parts").exists()


def test_a_finished_run_is_left_as_it_is(embedrun, interrupted):
    assert embedrun("resume", interrupted).code == 0
    before = {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()}
    ended = embedrun("resume", interrupted)
    assert ended.code == 0
    assert "has finished; its scores are in part/results.json" in ended.err
    assert {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()} == before


def test_another_model_in_the_same_place_is_refused(embedrun, interrupted):
    path = interrupted / ".parts" / "probe.json"
    path.write_text(
        json.dumps((-1 * pytest.importorskip("numpy").array(json.loads(path.read_text()))).tolist())
    )
    ended = embedrun("resume", interrupted)
    assert ended.code == 2
    assert "gives other vectors than when this evaluation began" in ended.err


def test_other_data_is_refused(embedrun, interrupted):
    path = interrupted / "environment.json"
    environment = json.loads(path.read_text())
    environment["data"]["toy/test"] = "other"
    path.write_text(json.dumps(environment))
    ended = embedrun("resume", interrupted)
    assert ended.code == 2
    assert "toy/test: the rows are not those that part began with" in ended.err
    assert "toy/dev" not in ended.err


def test_a_changed_configuration_is_shown_option_by_option(embedrun, interrupted):
    path = interrupted / "config.yaml"
    text = path.read_text().replace("test_rows: 16", "test_rows: 24").replace("threads: 1", "threads: 2")
    path.write_text(text)
    ended = embedrun("resume", interrupted)
    assert ended.code == 2
    assert "dataset.test_rows: 16 -> 24 since part began; put it back" in ended.err
    assert "gpu.threads: 1 -> 2 since part began" in ended.err
    assert "config has 2 problems" in ended.err


def test_a_run_that_another_process_writes_is_refused(embedrun, interrupted):
    other = Run(interrupted)
    ended = embedrun("resume", interrupted)
    assert ended.code == 8
    assert "part: another process is writing into it" in ended.err
    other.release()
    assert embedrun("resume", interrupted).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is no directory of a run that has begun"),
        ("schema: 99\nmodel: x\n", "schema 1"),
        ("- a\n", "schema 1"),
        ("a: [", "cannot be read"),
        ("a: &a [*a]", "cannot be read (its aliases expand to over"),
        ("schema: 1\nmodel: !!python/object/apply:os.system ['touch canary']\n", "cannot be read"),
    ],
)
def test_a_folder_that_is_no_run_is_refused_and_nothing_in_it_is_executed(embedrun, text, said):
    Path("odd").mkdir()
    if text is not None:
        Path("odd/config.yaml").write_text(text)
    ended = embedrun("resume", "odd")
    assert ended.code == 2
    assert said in ended.err
    assert not Path("canary").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_an_evaluation_ends_at_once_on_a_signal_and_keeps_its_parts(embedrun, tiny, monkeypatch, number):
    save = Kept.save

    def once(self: Kept, *found) -> None:
        save(self, *found)
        os.kill(os.getpid(), number)
        time.sleep(10)

    with monkeypatch.context() as patch:
        patch.setattr(Kept, "save", once)
        ended = embedrun("evaluate", f"model='{tiny.path}'", *TWO, "hydra.run.dir=part")
    assert ended.code == 143
    assert "embedrun resume part goes on from what is done" in ended.err
    assert json.loads(Path("part/status.json").read_text())["state"] == "interrupted"
    assert len(list(Path("part/.parts").glob("*.part"))) == 1
    assert embedrun("resume", "part").code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_while_libraries_are_loaded_ends_it_with_its_own_code(
    embedrun, interrupted, monkeypatch, number
):
    def load(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(10)

    monkeypatch.setattr("embedrun.experiment.evaluation.run", load)
    assert embedrun("resume", interrupted).code == 143


def test_an_evaluation_killed_when_all_was_written_is_only_marked_as_finished(embedrun, tiny, monkeypatch):
    def killed(*_: object) -> None:
        raise SystemExit("as if by kill -9")

    with monkeypatch.context() as patch:
        patch.setattr("embedrun.experiment.scoring.report", killed)
        with pytest.raises(SystemExit):
            embedrun("evaluate", f"model='{tiny.path}'", *TWO, "hydra.run.dir=part")
    before = Path("part/results.json").read_bytes()
    ended = embedrun("resume", "part")
    assert (ended.code, "has finished" in ended.err) == (0, True)
    assert json.loads(Path("part/status.json").read_text())["state"] == "finished"
    assert Path("part/results.json").read_bytes() == before
    assert not Path("part/.parts").exists()


def test_a_configuration_that_names_an_object_to_call_is_refused(embedrun, interrupted):
    path = interrupted / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["evaluation"]["tasks"]["dev"]["_target_"] = "os.system"
    path.write_text(yaml.safe_dump(config))
    ended = embedrun("resume", interrupted)
    assert ended.code == 2
    assert "_target_" in ended.err


def test_resume_wants_one_folder(embedrun):
    assert embedrun("resume").code == 2
    assert embedrun("resume", "--help").code == 0
