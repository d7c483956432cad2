import csv
import importlib.util
import json
import shlex
from pathlib import Path

import pytest
from made_jobs import in_this_process

from embedrun.commands import tune
from embedrun.errors import ConfigError
from embedrun.launch import launcher

study = pytest.importorskip("embedrun.study.trials")  # skipped without optuna
trial = pytest.importorskip("embedrun.study.tune")
Ended = study.Ended
QUICK = "+experiment=quickstart"
LR, SIZE = "training.lr=loguniform(1e-4,1e-2)", "training.batch_size=choice(16,32)"
METRIC = "toy_dev/spearman"
FOLDER = Path("outputs/quickstart/tune/s")


@pytest.fixture
def trials(monkeypatch):
    """Run no process and read no data: the score of a trial is its learning rate."""
    started = []

    def train(config, overrides, directory, report, *, metric, claim, choices):
        assert choices["experiment"] == "quickstart"
        rate = config["training"]["lr"]
        started.append((config, directory))
        report(2, rate)
        return Ended(METRIC, rate)

    monkeypatch.setattr(trial, "train", train)
    monkeypatch.setattr(trial, "marks", lambda _: {"toy/train": ["a"]})
    monkeypatch.setattr(study, "POLL", 0.01)
    return started


def ran(*arguments: str, trials: int = 2) -> int:
    return tune.main([QUICK, *arguments, "--trials", str(trials), "--study", "s"])


def test_the_best_trial_is_shown_with_the_command_that_trains_it(trials, capsys):
    assert ran(LR, SIZE, "seed=3") == 0
    lines = capsys.readouterr().out.splitlines()
    best = max((config["training"] for config, _ in trials), key=lambda training: training["lr"])
    assert lines[0].split() == ["trial", METRIC, "training.lr", "training.batch_size"]
    assert lines[2].split()[2:] == [repr(best["lr"]), str(best["batch_size"])]
    assert "2 finished" in lines
    number = [config["training"] for config, _ in trials].index(best)
    score = f"{best['lr']:.2f}"
    assert f"highest {METRIC} found: {score}, of trial {number}; each trial has one seed" in lines
    assert any(line.startswith(f"no best by {METRIC}: one seed and no interval over rows") for line in lines)
    assert shlex.split(lines[-1]) == [
        "embedrun", "train", QUICK, "seed=3",
        f"training.lr={best['lr']!r}", f"training.batch_size={best['batch_size']}",
    ]  # fmt: skip


def test_the_same_command_resumes_the_study_and_other_options_or_rows_are_refused(
    trials, monkeypatch, capsys
):
    ran(LR, trials=1)
    ran(LR, trials=2)
    assert [directory for _, directory in trials] == [FOLDER / f"trial-000{number}" for number in range(2)]
    said = capsys.readouterr().err
    assert f"study {FOLDER}: 1 of 2 trials are done" in said
    assert "trial 1 begins: training.lr=0.0" in said
    assert f"trial 1 (2 of 2): {METRIC} 0.0" in said
    with pytest.raises(ConfigError, match="seed: 42 -> 3 since study s began"):
        ran(LR, "seed=3")
    monkeypatch.setattr(trial, "marks", lambda _: {"toy/train": ["b"]})
    with pytest.raises(ConfigError, match="toy/train: is not what study s began with"):
        ran(LR)


def test_ctrl_c_says_how_to_go_on_and_the_trial_is_taken_up(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ran(LR)
    assert "0 of 2 trials are done; run the same command to resume" in capsys.readouterr().err
    monkeypatch.setattr(trial, "train", lambda *_, **__: Ended(METRIC, 1.0))
    assert ran(LR) == 0
    assert "trial 0 resumes" in capsys.readouterr().err


def test_without_optuna_it_says_how_to_get_it(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(tune, "find_spec", lambda name: None if name == "optuna" else found(name))
    with pytest.raises(ConfigError, match=r"tune needs optuna; pip install '\.\[hpo\]'"):
        ran(LR)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([QUICK, LR], "the following arguments are required: --trials"),
        ([QUICK, "--trials", "3"], "nothing to search"),
    ],
)
def test_a_faulty_command_line_is_refused_before_anything_is_made(arguments, said):
    with pytest.raises(ConfigError, match=said):
        tune.main(arguments)
    assert not Path("outputs").exists()


@pytest.mark.slow
def test_three_real_trials_end_with_a_best_one_that_trains_alone(
    counted, options, embedrun, capsys, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(Path(tune.__file__).parents[2]))
    small = [*options[1:], "training.evaluate_every=1"]
    assert ran(*(one for one in small if "batch_size" not in one), LR, SIZE, trials=3) == 0
    out = capsys.readouterr().out
    rows = list(csv.DictReader((FOLDER / "study.csv").open()))
    assert [row["state"] for row in rows] == ["finished"] * 3
    assert len({(row["training.lr"], row["training.batch_size"]) for row in rows}) == 3
    for number in range(3):
        scored = (FOLDER / f"trial-000{number}" / "results.json").read_text()
        assert METRIC in scored
        assert "toy_test" not in scored
    best = max(float(row[METRIC]) for row in rows)
    ended = embedrun(*shlex.split(out.splitlines()[-1])[1:])
    assert ended.code == 0
    (alone,) = (line for line in ended.out.splitlines() if line.startswith(METRIC))
    assert f" {best:.2f} " in alone


@pytest.mark.usefixtures("_alone", "_quick_plots")
def test_finalists_are_trained_with_new_seeds(trials, capsys, monkeypatch):
    monkeypatch.setattr(launcher, "run_in_child", in_this_process)
    short = ("training.max_steps=2", "dataset.train_rows=64", "dataset.test_rows=60")
    assert ran(*short, "training.lr=choice(1e-3,1e-4)", "--confirm", "1") == 0
    assert len(trials) == 2
    by_lr: dict[str, float] = {}
    for path in Path("outputs/quickstart").glob("20*/results.json"):
        lr = path.with_name("config.yaml").read_text().partition("\n  lr: ")[2].split()[0]
        by_lr[lr] = json.loads(path.read_text())["scores"][METRIC]
    lines = capsys.readouterr().out.partition("on new seeds")[2].splitlines()[2:4]
    again = [f"{by_lr[lr]:.2f}" for lr in ("0.001", "0.0001")]  # the higher lr has the better trial
    assert [line.split()[2] for line in lines] == again
    assert [line.split()[1] for line in lines] == ["0.00", "0.00"]  # that is, the trials' scores are their lr
