"""An experiment of several stages: each starts from what the one before has made, and none runs twice."""

import shutil
from pathlib import Path

import pytest

from embedrun.config import presets
from embedrun.config.request import Request
from embedrun.launch import stages
from embedrun.launch.job import Job, run_of
from embedrun.launch.stages import check, stages_of
from embedrun.runs.directory import Outcome

pytestmark = pytest.mark.usefixtures("_alone")
OWN = {
    "first": "defaults: [quickstart, _self_]\nname: first\n",
    "second": "defaults: [quickstart, _self_]\nname: second\nbackbone: {name: 'run:first', scratch: null}\n",
    "both": "stages: [train +experiment=first, train +experiment=second]\n",
}


@pytest.fixture
def own(tmp_path: Path, options: tuple[str, ...]) -> list[str]:
    folder = tmp_path / "my" / "experiment"
    folder.mkdir(parents=True)
    for name, text in OWN.items():
        (folder / f"{name}.yaml").write_text(f"# @package _global_\n{text}")
    small = [one for one in options if not one.startswith(("+experiment", "backbone", "name="))]
    return ["--config-dir", str(folder.parent), "+experiment=both", *small]


def here(job: Job, _: Path) -> Outcome:
    """A job in this process: five of their own take most of a minute."""
    return run_of(job.command)(job.config, job.overrides, job.directory, choices=job.choices)


def test_the_second_starts_from_the_first_and_both_are_found_again(embedrun, own, monkeypatch):
    monkeypatch.setattr(stages, "run_in_child", here)
    ended = embedrun("train", *own)
    assert ended.code == 0, ended.err
    (first,), (second,) = (list(Path("outputs", name).glob("2*")) for name in ("first", "second"))
    assert f"name: {first.resolve()}" in (second / "config.yaml").read_text(encoding="utf-8")
    again = embedrun("train", *own)
    assert again.code == 0
    assert again.out.count("finished before") == 2
    assert len(list(Path("outputs").glob("*/2*"))) == 2
    # A later run of the first stage's name is not what the second starts from.
    assert embedrun("train", *own, "seed=7").code == 0
    shutil.rmtree(second)
    assert embedrun("train", *own).code == 0
    starts = [(run / "config.yaml").read_text(encoding="utf-8") for run in Path("outputs/second").glob("2*")]
    assert len(starts) == 2
    assert sum(f"name: {first.resolve()}" in text for text in starts) == 1


def test_faults_of_all_stages_come_before_any_runs(embedrun, own):
    ended = embedrun("train", *own, "training.lr=-1")
    assert ended.code == 2
    assert ended.err.count("training.lr: must be above 0, got -1.0") == 2
    absent = embedrun("train", *own, "data_dir=nowhere", "training.dev=stsb")
    assert absent.code == 3
    assert absent.err.count("stsb/dev.tsv.gz") == 1
    assert "run:first" not in absent.err  # the first stage makes it
    assert embedrun("check", *own, "data_dir=nowhere", "training.dev=stsb").code == 3
    assert not Path("outputs").exists()
    assert "leave -m, --cfg and hydra options out" in embedrun("train", *own, "-m").err


def test_a_stage_that_yaml_reads_as_a_mapping_is_refused(embedrun, own):
    file = Path(own[1], "experiment", "both.yaml")
    file.write_text("# @package _global_\nstages:\n  - annotate output=out 'teachers=[{name: x}]'\n", "utf-8")
    ended = embedrun("train", *own)
    assert ended.code == 2
    assert (
        "is no text: YAML takes a colon before a blank for a mapping; put the stage into double" in ended.err
    )


def test_the_stages_of_our_presets_are_valid():
    found = [name for name in presets.groups()["experiment"] if presets.stages(name, [presets.folder()])]
    assert found == ["ran", "raoe_bert", "raoe_renewed"]
    for name in found:
        check(stages_of(Request.typed("train", [f"+experiment={name}"])))
