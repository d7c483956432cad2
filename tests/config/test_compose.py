"""The one door to Hydra: one configuration, the jobs of a sweep, and many at once."""

from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from embedrun.config import presets
from embedrun.config.compose import composed, sweep
from embedrun.config.request import Request
from embedrun.errors import ConfigError

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

QUICK = "+experiment=quickstart"


def request(*overrides: str, config_dir: Path | None = None, multirun: bool = False) -> Request:
    return Request(command="train", overrides=overrides, config_dir=config_dir, multirun=multirun)


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        ((), {"experiment": "quickstart", "backbone": "tiny", "loss": "angle_toy"}),
        (("loss=cosent", "seed=3"), {"experiment": "quickstart", "backbone": "tiny", "loss": "cosent"}),
        (("evaluation=[sts,geometry]",), {"evaluation": "[sts,geometry]"}),
    ],
)
def test_the_presets_behind_a_configuration_are_known_and_hydras_own_are_left_out(typed, chosen):
    found = composed(request(QUICK, *typed)).choices
    assert found.items() >= chosen.items()
    assert list(found)[:4] == ["experiment", "backbone", "pooling", "prompts"]
    assert not [group for group in found if group.startswith("hydra")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dataset=5"], "dataset=5: no such choice (there are: classes, github_issues, mix, "),
        (["loss=angel"], "loss=angel: no such choice; did you mean 'angle'? (there are: angle, angle_2024"),
        (["dataset=a/x.csv"], "; for rows of your own: dataset=pairs dataset.path=a/x.csv"),
        (["dataset=[stsb,mrpc]"], "dataset=mix 'dataset.parts={stsb: {dataset: stsb, share: 0.5}, mrpc: "),
        (["dataset@x=toy"], "dataset@x: embedrun train has no such group (it has: backbone, pooling, "),
        (["+loss=cosent", QUICK], "+loss=...: loss already has a choice; write loss=... without the plus"),
        (["seed"], "seed: not an override; write option=value"),
        (["seed=1,2"], "seed=1,2: several values; add -m for one run each, or write a list"),
        (["name=${nowhere}"], "name: Interpolation key 'nowhere' not found"),
        (["~training.lrr"], "Could not delete from config. 'training.lrr' does not exist"),
        (["+evaluation.tasks=1"], "An item is already at 'evaluation.tasks'"),
    ],
)
def test_what_cannot_be_composed_is_explained_in_one_line(arguments, words):
    with pytest.raises(ConfigError) as caught:
        composed(request(*arguments))
    (problem,) = caught.value.problems
    assert words in problem
    assert "\n" not in problem
    assert "HYDRA_FULL_ERROR" not in problem


def test_the_composed_configuration_goes_to_stdout_and_nothing_else_does(embedrun):
    shown = embedrun("train", QUICK, "training.lr=0.25", "--cfg", "job")
    assert (shown.code, shown.err) == (0, "")
    config = yaml.safe_load(shown.out)
    assert (config["name"], config["training"]["lr"]) == ("quickstart", 0.25)
    assert "hydra" not in config
    assert not list(Path.cwd().iterdir())


def test_own_files_add_an_experiment_and_a_mix_of_losses(embedrun, own):
    own("loss/mine.yaml", "terms:\n  cosent:\n    weight: 2.0\n")
    body = "# @package _global_\ndefaults:\n  - quickstart\n  - override /loss: mine\nname: mine\n"
    folder = own("experiment/mine.yaml", body)
    shown = embedrun("train", "experiment=mine", "--config-dir", folder, "--cfg", "job")
    assert (shown.code, shown.err) == (0, "")
    config = yaml.safe_load(shown.out)
    assert config["name"] == "mine"
    assert config["loss"] == {"terms": {"cosent": {"weight": 2.0}}}
    said = embedrun("train", "loss=min", "--config-dir", folder).err
    assert "did you mean 'mine'?" in said


def test_a_run_directory_is_known_only_if_the_user_gave_one():
    assert composed(request(QUICK)).directory is None
    assert composed(request(QUICK, "hydra.run.dir=a/b")).directory == "a/b"
    assert composed(request(QUICK), job=1).directory is None
    given = composed(request(QUICK, "hydra.sweep.dir=s"), job=1)
    assert (given.directory, given.parent) == ("s/1", "s")
    named = composed(request(QUICK, "hydra.sweep.dir=s", "hydra.sweep.subdir=seed${seed}"), job=1)
    assert named.directory == "s/seed42"
    assert composed(request(QUICK, "hydra.sweep.subdir=x"), job=1).directory == "x"


def test_a_sweep_is_every_combination_in_order():
    jobs = sweep(request(QUICK, "seed=1,2", "loss=angle,cosent", "hydra.sweep.dir=s"))
    assert [job[2:] for job in jobs] == [
        ["seed=1", "loss=angle"],
        ["seed=1", "loss=cosent"],
        ["seed=2", "loss=angle"],
        ["seed=2", "loss=cosent"],
    ]
    assert all(job[:2] == ["hydra.sweep.dir=s", QUICK] for job in jobs)


def test_a_glob_is_a_job_for_each_choice_that_fits_of_ours_and_of_the_users(own):
    folder = own("loss/cosent_own.yaml", "defaults: [cosent]\n")
    jobs = sweep(request(QUICK, "loss=glob(cosent*)", config_dir=folder))
    assert [job[-1] for job in jobs] == ["loss=cosent", "loss=cosent_own"]


def test_a_preset_can_be_a_sweep(own):
    hydra = "hydra:\n  mode: MULTIRUN\n  sweeper:\n    params:\n      seed: 1,2\n"
    folder = own("experiment/seeds.yaml", f"# @package _global_\ndefaults: [quickstart]\n{hydra}")
    given = request("+experiment=seeds", config_dir=folder)
    assert composed(given).multirun
    assert [composed(given, job).config["seed"] for job in sweep(given)] == [1, 2]


@pytest.mark.parametrize(
    ("command", "overrides"),
    [
        ("train", ("+experiment=quickstart", "pooling=max", "training.lr=3e-5", "seed=3", "name=other")),
        ("train", ("+experiment=arccse_bert", "loss.terms.arccon.margin=4", "++loss.terms.arccon.weight=2")),
        ("evaluate", ("model=run:arccse_bert", "evaluation=geometry", "~evaluation.tasks.geometry")),
    ],
)
def test_the_result_is_what_hydra_composes(command: str, overrides: tuple[str, ...]):
    found = composed(Request(command, overrides)).config
    with initialize_config_dir(str(presets.folder()), version_base=None):
        whole = compose(command, list(overrides))
    assert found == OmegaConf.to_container(whole, resolve=True)


def test_no_preset_makes_an_option_of_the_seed():
    # The tables look for runs of every seed with one composition.
    for path in presets.folder().rglob("*.yaml"):
        assert "{seed}" not in path.read_text(encoding="utf-8"), path


OWN = ("dataset=pairs", "dataset.path=x.csv")
GIVEN = "loss.terms.in_batch_negatives.positive_from=2"


@pytest.mark.parametrize(
    ("overrides", "bound"),
    [
        (("dataset=stsb",), 1.0),
        (OWN, None),
        ((*OWN, "loss=angle_toy"), None),
        ((*OWN, "dataset.score_range=[1,5]"), 4.0),
        ((*OWN, "dataset.score_range=[0,1]", "loss=simcse_three_way"), 0.75),
        ((*OWN, "dataset.score_range=[1,5]", GIVEN), 2),
        ((*OWN, "loss=angle_binary"), 1.0),
        ((*OWN, "loss=angle_without_ibn"), 1.0),  # without weight, as it was in the hash of runs of before
    ],
)
def test_a_bound_for_a_known_scale_does_not_hold_for_pairs_of_the_users_own(overrides, bound):
    terms = composed(request("loss=angle", "dataset=toy", *overrides)).config["loss"]["terms"]
    assert terms["in_batch_negatives"]["positive_from"] == bound


TEST = (*OWN, "dataset.test=t.csv")


@pytest.mark.parametrize(
    ("overrides", "tasks"),
    [
        ((), ["sts"]),
        (OWN, []),
        (TEST, ["heldout"]),
        ((*OWN, "dataset.split={train: 0.8, test: 0.2}"), ["heldout"]),
        (
            ("dataset=triplets", "dataset.path=hf://datasets/o/n", "dataset.splits={train: a, test: b}"),
            ["heldout"],
        ),
        ((*TEST, "evaluation=[auto,retrieval]"), ["heldout", "retrieval"]),
        ((*OWN, "evaluation=[retrieval,auto]"), ["retrieval"]),
        ((*TEST, "evaluation=stsb"), ["sts"]),
        ((*OWN, "evaluation.tasks.sts.sets=[stsb]"), ["sts"]),
        ((*OWN, "+experiment=simcse_bert", "dataset=pairs"), ["sts"]),  # which names it
    ],
)
def test_ones_own_rows_are_scored_on_their_test_split_or_not_at_all_unless_something_else_is_named(
    overrides, tasks
):
    assert list(composed(request(*overrides)).config["evaluation"]["tasks"]) == tasks


def test_files_of_presets_are_read_once_and_a_composition_cannot_change_them(monkeypatch):
    first = composed(request(QUICK, "seed=1", "loss=cosent"), strict=True)
    first.config["training"]["lr"] = None
    read = []
    monkeypatch.setattr(
        "omegaconf.OmegaConf.load", lambda *given: read.append(given)
    )  # by Hydra, for each file
    second = composed(request(QUICK, "seed=2", "loss=cosent"), strict=True)
    assert read == []
    assert second.config == {**composed(request(QUICK, "seed=3", "loss=cosent")).config, "seed": 2}
    assert second.config["training"]["lr"] is not None


def test_an_unknown_key_is_let_in_for_the_report_of_all_faults(refused):
    said = refused("train", QUICK, "los=angle", "training.epochs=-1")
    assert said.startswith("config has 2 problems:\n")
    assert "los: unknown key; did you mean 'loss'?" in said
