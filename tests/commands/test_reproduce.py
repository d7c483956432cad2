import os
import signal
from pathlib import Path

import pytest
import yaml
from made_jobs import KILLED, MadeJobs

from embedrun.commands import launch_work
from embedrun.commands.compositions import Compositions
from embedrun.commands.reproduce import main
from embedrun.errors import ConfigError
from embedrun.run import Run

KEYS = ("sts/stsb/spearman", "sts/avg/spearman")
TABLE = "angle/table4"  # eleven rows, two of which are one run
COMPOSED: dict = {}
ROWS = ("--only", "w/o ibn", "--only", "w/o angle")


@pytest.fixture(autouse=True)
def _composed_once(monkeypatch) -> None:
    """What Hydra has composed for one test is there for the next."""
    make = Compositions.__init__

    def remembering(self) -> None:
        make(self)
        self._choices = COMPOSED

    monkeypatch.setattr(Compositions, "__init__", remembering)


@pytest.fixture
def jobs(monkeypatch) -> MadeJobs:
    made = MadeJobs(lambda _: {**dict.fromkeys(KEYS, 80.25), "stsb_dev/spearman": 81.0})
    monkeypatch.setattr(launch_work, "run_in_child", made)
    return made


@pytest.fixture
def reproduce(capsys):
    """Run the command; exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def names(jobs: MadeJobs) -> list[str]:
    return [job.config["name"] for job in jobs.started]


def test_each_different_run_of_a_table_is_made_once_and_the_table_is_printed(reproduce, jobs):
    code, out, err = reproduce(TABLE)
    assert code == 0
    assert len(jobs.started) == 10
    assert {(job.command, job.config["seed"], job.config["scale"]) for job in jobs.started} == {
        ("train", 42, None)
    }
    assert out.count("80.25") == 11
    assert "86.26" in out
    assert "Objective/AnglE-BERT-all, Pooling Strategy/cls" in err
    assert not Path("outputs/reproduce").exists()


def test_what_has_finished_is_not_run_again_unless_asked(reproduce, jobs):
    assert reproduce(TABLE, *ROWS)[0] == 0
    assert names(jobs) == ["angle_stsb_without_ibn", "angle_stsb_without_angle"]
    code, out, err = reproduce(TABLE, *ROWS)
    assert (code, len(jobs.started), out.count("80.25")) == (0, 2, 2)
    assert err.count("finished before") == 2
    assert reproduce(TABLE, *ROWS, "--again")[0] == 0
    assert len(jobs.started) == 4


def test_a_killed_cell_is_listed_with_its_reason_and_goes_on_the_next_time(reproduce, jobs):
    jobs.killed = lambda config: config["name"] == "angle_stsb_without_ibn"
    code, out, err = reproduce(TABLE, *ROWS)
    assert (code, out.count("80.25")) == (1, 1)
    assert f"Objective/w/o ibn, seed 42: {KILLED}" in err
    jobs.killed = lambda _: False
    assert reproduce(TABLE, *ROWS)[0] == 0
    assert [job.resumed is None for job in jobs.started] == [True, True, False]


def test_seeds_are_runs_of_their_own(reproduce, jobs):
    code, out, _ = reproduce(TABLE, "--only", "w/o ibn", "--seeds", "1,2")
    assert (code, jobs.seeds) == (0, [1, 2])
    assert "80.25" in out


def test_a_reduced_setting_is_marked_in_runs_and_table_and_fills_no_other(reproduce, jobs):
    code, out, _ = reproduce(TABLE, *ROWS, "--scale", "cpu_small", "backbone.name=a/b")
    assert code == 0
    configs = [job.config for job in jobs.started]
    assert {one["scale"] for one in configs} == {"cpu_small"}
    assert {(one["backbone"]["name"], one["training"]["data_fraction"]) for one in configs} == {("a/b", 0.25)}
    assert "cpu_small" in out
    assert "not a reproduction" in out
    assert reproduce(TABLE, *ROWS)[0] == 0
    assert len(jobs.started) == 4


def test_a_second_stage_starts_from_the_first_of_the_same_seed_and_setting(reproduce, jobs):
    code, _, err = reproduce("raoe/table1", "--only", "BERT-base/RAOE-S2", "--seeds", "1,2")
    assert code == 0, err
    assert [(job.config["name"], job.config["seed"]) for job in jobs.started] == [
        ("raoe_s1_bert", 1),
        ("raoe_s1_bert", 2),
        ("raoe_s2_bert", 1),
        ("raoe_s2_bert", 2),
    ]
    for second in jobs.started[2:]:
        begun = Path(second.config["backbone"]["name"])
        assert begun.is_absolute()
        assert yaml.safe_load((begun / "config.yaml").read_text())["seed"] == second.config["seed"]


def test_a_second_stage_whose_first_fails_is_not_run(reproduce, jobs):
    jobs.killed = lambda config: config["name"] == "raoe_s1_bert"
    code, _, err = reproduce("raoe/table1", "--only", "BERT-base/RAOE-S2")
    assert (code, names(jobs)) == (1, ["raoe_s1_bert"])
    assert "run:raoe_s1_bert with seed 42, which it starts from, has not finished" in err


def test_evaluate_rows_run_evaluations(reproduce, jobs):
    assert reproduce("raoe/table1", "--only", "jina-embeddings-v3")[0] == 0
    assert [(job.command, job.config["model"]) for job in jobs.started] == [
        ("evaluate", "jinaai/jina-embeddings-v3-hf")
    ]


def test_a_run_on_other_rows_is_made_again(reproduce, jobs, monkeypatch):
    jobs.data = {"stsb/train": "then"}
    assert reproduce(TABLE, "--only", "w/o ibn")[0] == 0
    monkeypatch.setattr("embedrun.commands.launch_data._read", lambda *_: {"stsb/train": "now"})
    code, _, err = reproduce(TABLE, "--only", "w/o ibn")
    assert (code, len(jobs.started)) == (0, 2)
    assert "has read other rows of stsb/train; it is run again" in err


def test_a_cell_that_another_process_is_at_is_left_alone(reproduce, jobs):
    jobs.killed = lambda _: True
    assert reproduce(TABLE, "--only", "w/o ibn")[0] == 1
    (place,) = Path("outputs/angle_stsb_without_ibn").iterdir()
    held = Run.claim(place)
    code, _, err = reproduce(TABLE, "--only", "w/o ibn")
    held.release()
    assert (code, len(jobs.started)) == (1, 1)
    assert "another process is writing into it" in err


def test_a_dry_run_lists_cells_and_makes_nothing(reproduce, jobs):
    code, out, _ = reproduce(TABLE, *ROWS, "--dry-run", "training.max_steps=7")
    assert (code, jobs.started) == (0, [])
    lines = [line.split() for line in out.splitlines()]
    assert ["Objective/w/o", "ibn", "42", "missing", "7", "-"] in lines  # no data here
    assert ["2", "runs,", "2", "to", "be", "made"] in lines
    assert list(Path.cwd().iterdir()) == []


def test_a_signal_starts_no_other_cell_and_says_how_to_go_on(capsys, jobs, monkeypatch):
    def run(job, *rest):
        os.kill(os.getpid(), signal.SIGTERM)
        return jobs(job, *rest)

    monkeypatch.setattr(launch_work, "run_in_child", run)
    with pytest.raises(KeyboardInterrupt):
        main([TABLE, *ROWS])
    said = capsys.readouterr().err
    assert jobs.started == []
    assert "goes on with what is left" in said
    assert [line.split()[-3] for line in said.splitlines() if line.startswith("Objective")] == [
        "interrupted",
        "started",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "expected one table"),
        (("angle/table44",), "no table 'angle/table44'; did you mean 'angle/table4'"),
        ((TABLE, "raoe/table1"), "expected one table"),
        ((TABLE, "--only", "w/o ibm"), "no row 'w/o ibm'"),
        ((TABLE, "--seeds", "1,x"), "--seeds: expected different whole numbers"),
        ((TABLE, "--scale", "cpu_smal"), "no reduced setting 'cpu_smal'; did you mean 'cpu_small'"),
        ((TABLE, "training.lrr=1"), "training.lrr"),
        ((TABLE, "hydra.callbacks.x._target_=os.system"), "hydra.callbacks"),
    ],
)
def test_a_wrong_command_line_is_refused(jobs, arguments, said):
    with pytest.raises(ConfigError, match=said.replace("?", "[?]").replace("(", "[(]")):
        main(list(arguments))
    assert jobs.started == []
