from pathlib import Path

import pytest
import yaml
from cell_runs import compositions
from made_jobs import KILLED, MadeJobs

from embedrun.commands.reproduce import main
from embedrun.errors import ConfigError
from embedrun.launch import launcher
from embedrun.study import reproduce as study
from embedrun.table import cells

KEYS = ("sts/stsb/spearman", "sts/avg/spearman")
TABLE = "angle/table4"  # eleven rows, two of which are one run
ROWS = ("--only", "w/o ibn", "--only", "w/o angle")


@pytest.fixture(autouse=True)
def _quick(monkeypatch) -> None:
    for module in (study, cells):
        monkeypatch.setattr(module, "Compositions", compositions)  # each choice composed once


@pytest.fixture
def jobs(monkeypatch) -> MadeJobs:
    made = MadeJobs(lambda _: {**dict.fromkeys(KEYS, 80.25), "stsb_dev/spearman": 81.0})
    monkeypatch.setattr(launcher, "run_in_child", made)
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
    two = ("--only", "AnglE-BERT-all", "--only", "Pooling Strategy/cls")  # one run
    code, out, err = reproduce(TABLE, *two)
    assert code == 0
    (job,) = jobs.started
    assert (job.command, job.config["seed"], job.config["scale"]) == ("train", 42, None)
    assert job.choices["experiment"] == "angle_stsb"
    assert out.count("80.25") == 2
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
    code, _, err = reproduce(
        "raoe/table1", "--only", "BERT-base/RAOE-S2", "--seeds", "1,2", "training.max_steps=7"
    )  # an override: only this row is printed
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


def test_a_run_of_other_code_stays_is_listed_with_the_reason_and_made_again(reproduce, jobs):
    own = (TABLE, "--only", "w/o ibn")
    jobs.data = {"code loss cosent": "then"}
    assert reproduce(*own)[0] == 0
    assert "the code of cosent has changed" in reproduce(*own, "--dry-run")[1]
    jobs.data = {}
    code, _, err = reproduce(*own)
    assert (code, len(jobs.started)) == (0, 2)
    assert "w/o ibn, seed 42 is run again: the code of cosent has changed since outputs/" in err
    assert len(list(Path("outputs").glob("*/*/config.yaml"))) == 2


def test_a_dry_run_lists_cells_and_makes_nothing(reproduce, jobs):
    code, out, _ = reproduce(TABLE, *ROWS, "--dry-run", "training.max_steps=7")
    assert (code, jobs.started) == (0, [])
    lines = [line.split() for line in out.splitlines()]
    assert ["Objective/w/o", "ibn", "42", "missing", "7", "-", "-", "-"] in lines  # no data here
    assert ["2", "runs,", "2", "to", "run"] in lines
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("angle/table44",), "no table 'angle/table44'; did you mean 'angle/table4'"),
        ((TABLE, "--only", "w/o ibm"), "no row 'w/o ibm'"),
        (("angle/table1", "foo=bar"), "foo=bar: no row takes it: angle/table1 has nothing to run"),
        ((TABLE, *ROWS, "training.lr=-1"), "training.lr"),
        ((TABLE, "hydra.callbacks.x._target_=os.system"), "hydra.callbacks"),
    ],
)
def test_a_wrong_command_line_is_refused(jobs, arguments, said):
    with pytest.raises(ConfigError, match=said.replace("?", "[?]").replace("(", "[(]")):
        main(list(arguments))
    assert jobs.started == []
