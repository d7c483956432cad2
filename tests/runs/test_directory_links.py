"""A run is written to where it is: links in its directory are refused before anything is written."""

import shutil
from pathlib import Path

import pytest
from finished_runs import finished

from embedrun.config.compose import Request
from embedrun.errors import ConfigError
from embedrun.launch.before import standing
from embedrun.launch.job import Job, claimed
from embedrun.launch.launcher import launch
from embedrun.runs.directory import Run, config_hash
from embedrun.tracking import Tracker, cut

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

TRAINING = {"name": "toy", "training": {"lr": 0.1}}
EVALUATION = {"name": "evaluate", "model": "m"}
# What a run may leave, finished or not; a directory and a file are linked alike.
PARTS = (
    ".lock", ".parts", ".tmp-model", "bad_batch.json", "checkpoints", "config.yaml", "contamination.json",
    "environment.json", "metrics.jsonl", "model", "overrides.yaml", "plots", "predictions", "report.html",
    "results.json", "run.log", "speed.jsonl", "status.json", "tensorboard", "wandb",
)  # fmt: skip


def interrupted(config: dict) -> Path:
    run = Run.create(config["name"], config, directory="run")
    run.start(config, [], {})
    (run.path / "checkpoints/step-00000002").mkdir(parents=True)
    (run.path / "checkpoints/step-00000002/model.safetensors").write_text("weights")
    run.open_log().info("begun")
    run.end("interrupted")
    return run.path


def link(path: Path) -> None:
    """Move a part of a run, or an empty file where it has none, elsewhere and leave a link."""
    place = Path("else", path.name)
    place.parent.mkdir(exist_ok=True)
    if path.exists():
        shutil.move(path, place)
    else:
        place.write_text("precious")
    path.symlink_to(Path("..", place) if path.parent == Path("run") else place.resolve())


def everything() -> dict[Path, bytes]:
    """Every file here and what it holds; links are not followed into folders."""
    return {path: path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


@pytest.mark.parametrize("config", [TRAINING, EVALUATION], ids=["training", "evaluation"])
@pytest.mark.parametrize("command", ["resume", "report"])
def test_linked_parts_are_refused_all_together_and_nothing_is_written(embedrun, config, command):
    run = interrupted(config)
    for name in PARTS:
        link(run / name)
    before = everything()
    ended = embedrun(command, run)
    assert (ended.code, ended.out) == (2, "")
    for name in PARTS:
        assert f"run/{name} is a link to ../else/{name}; embedrun does not write through links: " in ended.err
    assert everything() == before


@pytest.mark.parametrize("name", PARTS)
def test_one_linked_part_is_enough(embedrun, name):
    run = interrupted(TRAINING)
    link(run / name)
    before = everything()
    ended = embedrun("resume", run)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"config has 1 problem:\n  run/{name} is a link to ../else/{name}; ")
    assert everything() == before


def test_a_linked_checkpoint_is_refused(embedrun):
    run = interrupted(TRAINING)
    link(run / "checkpoints/step-00000002")
    ended = embedrun("resume", run)
    assert ended.code == 2
    assert "run/checkpoints/step-00000002 is a link to " in ended.err


def test_a_link_under_any_other_name_is_refused_too(embedrun):
    run = interrupted(TRAINING)
    link(run / "notes.txt")
    assert "run/notes.txt is a link to ../else/notes.txt" in embedrun("resume", run).err


@pytest.mark.parametrize(
    "name",
    ["plots/curves.png", "predictions/toy.parquet", "predictions/.toy.parquet", ".parts/trained-test",
     ".parts/trained-test/predictions", "checkpoints/step-00000002/model.safetensors"],
)  # fmt: skip
def test_a_link_deeper_in_a_run_is_refused(embedrun, name):
    run = interrupted(TRAINING)
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    link(run / name)
    before = everything()
    for command in ("resume", "report"):
        ended = embedrun(command, run)
        assert ended.code == 2
        assert f"run/{name} is a link to " in ended.err
    assert everything() == before


def test_the_links_that_a_tracker_makes_are_its_own():
    run = interrupted(TRAINING)
    (run / "wandb").mkdir()
    (run / "wandb/latest-run").symlink_to("offline-run-1")
    Run.claim(run).release()


@pytest.mark.parametrize("name", ["plots", "checkpoints", "metrics.jsonl"])
def test_a_run_with_links_is_not_evaluated(embedrun, name):
    run = finished(Path("run"), {"name": "toy"})
    (run / "model").mkdir()
    (run / "model/config.json").write_text("{}")
    link(run / name)
    ended = embedrun("evaluate", "model=run", "evaluation=heldout", "dataset=toy")
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert f"/outputs/run/{name} is a link to " in ended.err
    assert not Path("outputs/evaluate").exists()


def test_a_link_that_comes_after_the_look_is_not_written_through():
    run = Run.claim(interrupted(TRAINING))
    for name in ("run.log", "metrics.jsonl", "speed.jsonl"):
        link(run.path / name)
    before = everything()
    for write in (run.open_log, lambda: Tracker(run.path), lambda: cut(run.path, 0)):
        with pytest.raises(ConfigError, match=r"is a link to \.\./else/"):
            write()
    Path("run/metrics.jsonl").unlink()
    Path("else/metrics.jsonl").unlink()
    del before[Path("run/metrics.jsonl")], before[Path("else/metrics.jsonl")]
    with pytest.raises(ConfigError, match=r"run/speed.jsonl is a link to ../else/speed.jsonl"):
        cut(run.path, 0)
    run.release()
    assert everything() == before


@pytest.mark.parametrize("name", ["logs", "logs/0.log"])
def test_jobs_whose_output_would_go_through_a_link_are_not_begun(name):
    Path("canaries").mkdir()
    Path("sweep", name).parent.mkdir(parents=True)
    Path("sweep", name).symlink_to(Path("canaries").resolve())
    with pytest.raises(ConfigError, match=f"sweep/{name} is a link to "):
        launch(Request("train", ("hydra/launcher=joblib",)), [Job("train", TRAINING)], Path("sweep"))
    assert not list(Path("canaries").iterdir())


def test_a_page_that_goes_elsewhere_needs_no_word_on_links(embedrun):
    run = finished(Path("run"), {"name": "toy"})
    link(run / "run.log")
    assert embedrun("report", run).code == 2
    assert embedrun("report", run, "-o", "page.html").code == 0


def test_a_run_directory_may_itself_be_reached_through_a_link():
    interrupted(TRAINING).rename("else")
    Path("outputs").mkdir()
    Path("outputs/run").symlink_to("../else")
    Run.claim(Path("outputs/run")).release()


def test_a_job_of_many_is_refused_as_a_fault_of_the_user_and_not_as_in_use():
    run = interrupted(TRAINING)
    link(run / "run.log")
    found = standing(run)
    assert found.code == 2
    assert "run/run.log is a link to ../else/run.log" in (found.fault or "")
    assert "\n" not in (found.fault or "")


def test_a_job_whose_claim_is_a_link_is_not_run():
    Path("outputs").mkdir()
    Path("canary").write_text("precious")
    Path(f"outputs/.claim-{config_hash(TRAINING)[:16]}").symlink_to("../canary")
    with claimed(Job("train", TRAINING)) as outcome:
        assert outcome is not None
        assert outcome.code == 2
        assert "is a link to ../canary" in (outcome.error or "")
    assert Path("canary").read_text() == "precious"


def test_a_multirun_whose_lock_is_a_link_is_refused(embedrun, options):
    Path("canary").write_text("precious")
    Path("sweep").mkdir()
    Path("sweep/.multirun.lock").symlink_to("../canary")
    ended = embedrun("train", "-m", *options, "seed=1,2", "hydra.sweep.dir=sweep")
    assert ended.code == 2
    assert "sweep/.multirun.lock is a link to ../canary" in ended.err
    assert Path("canary").read_text() == "precious"


@pytest.mark.parametrize("name", ["journal.log", "trial-0000.log", ".locks", "plots"])
def test_a_study_with_links_is_refused_but_for_the_directories_of_its_trials(name):
    pytest.importorskip("optuna")
    from embedrun.study.tune.distributions import split
    from embedrun.study.tune.study import Study

    def opened() -> Study:
        searched = split(("x=uniform(0,1)",)).searched
        return Study.open(Path("run"), searched, {}, {}, seed=1, lowest=False, prunes=False)

    Path("run").mkdir()
    link(Path("run") / name)
    before = everything()
    with pytest.raises(ConfigError, match=f"run/{name} is a link to ../else/{name}"):
        opened()
    assert everything() == before
    Path("run", name).unlink()
    Path("big").mkdir()
    Path("run/trial-0001").symlink_to("../big")
    opened()
