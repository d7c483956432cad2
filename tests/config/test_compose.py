"""The one door to Hydra: one configuration, the jobs of a sweep, and many at once."""

from pathlib import Path

import pytest
import yaml
from cell_runs import compositions
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from embedrun.config import presets
from embedrun.config.compose import composed, sweep
from embedrun.config.request import Request, loosened
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
        (("hydra/launcher=basic",), {"gpu": "cpu", "tracking": "local"}),
    ],
)
def test_the_presets_behind_a_configuration_are_known_and_hydras_own_are_left_out(typed, chosen):
    found = composed(request(QUICK, *typed)).choices
    assert found.items() >= chosen.items()
    assert list(found)[:4] == ["experiment", "backbone", "pooling", "loss"]
    assert not [group for group in found if group.startswith("hydra")]


def test_a_choice_of_none_is_no_choice():
    assert list(composed(Request("evaluate", ("model=x",))).choices) == ["pooling", "gpu", "evaluation"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dataset=5"], "dataset=5: no such choice (there are: github_issues, mrpc, nli, "),
        (["loss=3"], "loss=3: no such choice (there are: angle, angle_2024, "),
        (["loss=[cosent,true]"], "loss=true: no such choice (there are: angle, angle_2024, "),
        (["evaluation=2.5", "dataset=stsb"], "evaluation=2.5: no such choice (there are: auto, geometry, "),
        (["experiment=7"], "+experiment=7: no such choice (there are: "),
        (["+experiment=quickstar"], "+experiment=quickstar: no such choice; did you mean 'quickstart'?"),
        (
            [QUICK, "loss=angel"],
            "loss=angel: no such choice; did you mean 'angle'? (there are: angle, angle_2024, angle_binary",
        ),
        ([QUICK, "los=angle"], "los: unknown key; did you mean 'loss'?"),
        ([QUICK, "+los=angle"], "los: unknown key; did you mean 'loss'?"),
        ([QUICK, "trainng.lr=1"], "trainng: unknown key; did you mean 'training'?"),
        ([QUICK, "training.lrr=1"], "training.lrr: unknown key; did you mean 'training.lr'?"),
        ([QUICK, "+training.lrr=1"], "training.lrr: unknown key; did you mean 'training.lr'?"),
        ([QUICK, "++training.lrr=1"], "training.lrr: unknown key; did you mean 'training.lr'?"),
        ([QUICK, "lr=1e-5"], "lr: unknown key; did you mean 'training.lr'?"),
        (["+loss=cosent", QUICK], "+loss=...: loss already has a choice; write loss=... without the plus"),
        ([QUICK, "+loss=cosent"], "+loss=...: loss already has a choice; write loss=... without the plus"),
        ([QUICK, "seed"], "seed: not an override; write option=value"),
        ([QUICK, "name=a b c="], "not an override"),
        ([QUICK, "seed=1,2"], "seed=1,2: several values; add -m for one run each, or write a list"),
        ([QUICK, "name=${nowhere}"], "name: Interpolation key 'nowhere' not found"),
        ([QUICK, "name=${name}"], "name: "),
        ([QUICK, "~training.lrr"], "~training.lrr: there is no such option to leave out"),
        ([QUICK, "learning_rate=1"], "learning_rate: unknown key; did you mean 'training.lr'?"),
        ([QUICK, "model=x"], "model: unknown key; did you mean 'backbone.name'?"),
        ([QUICK, "training/lr=1"], "training/lr: unknown key; did you mean 'training.lr'?"),
        (
            [QUICK, "+evaluation.tasks=1"],
            "+evaluation.tasks: is there already; write evaluation.tasks=... wi",
        ),
        ([QUICK, "dataset@x=toy"], "dataset@x: unknown key; did you mean 'dataset'?"),
        ([QUICK, "lr=1", "--cfg", "job"], "lr: unknown key; did you mean 'training.lr'?"),
    ],
)
def test_what_cannot_be_composed_is_explained_in_one_line(refused, arguments, words):
    said = refused("train", *arguments)
    assert said.startswith("config has 1 problem:\n")
    assert words in said
    assert said.count("\n") == 2
    assert "HYDRA_FULL_ERROR" not in said


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        ("train.csv", "dataset=pairs dataset.path=train.csv"),
        ("train.tsv.gz", "dataset=pairs dataset.path=train.tsv.gz"),
        ("train.jsonl", "dataset=pairs dataset.path=train.jsonl"),
        ("data/train.parquet", "dataset=pairs dataset.path=data/train.parquet"),
        ("mine", "dataset=pairs dataset.path=mine"),
        ("hf://datasets/a/b", "dataset=pairs dataset.path=hf://datasets/a/b"),
        ("train.txt", "dataset=texts dataset.path=train.txt"),
        ("/there/train.csv", "dataset=pairs dataset.path=/there/train.csv"),
        ("../train.csv", "dataset=pairs dataset.path=../train.csv"),
    ],
)
def test_data_in_place_of_its_kind_lead_on_to_what_composes(refused, value, typed):
    Path("mine").mkdir()
    said = refused("train", f"dataset={value}")
    assert f"dataset={value}: names a kind of data set; for your own, write {typed} (or dataset=" in said
    assert composed(request(*typed.split())).config["dataset"]["path"] == value


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        ("[stsb,mrpc]", "-m dataset=stsb,mrpc makes a run of each"),
        ("[stsb,/a.csv]", "for your own, dataset=pairs dataset.path=FOLDER reads all files of a folder"),
    ],
)
def test_two_data_sets_of_one_run_are_refused_and_not_overlaid(refused, value, typed):
    said = refused("train", f"dataset={value}")
    assert said == f"config has 1 problem:\n  dataset={value}: a run has one data set; {typed}\n"
    assert composed(request("dataset=[stsb]")).config["dataset"]["name"] == "stsb"


def test_a_group_that_a_command_has_not_is_not_to_be_added(refused):
    said = refused("evaluate", "model=x", "loss=angle")
    assert "loss: embedrun evaluate has no such group (it has: pooling, dataset, gpu, evaluation)" in said


@pytest.mark.parametrize("what", [("--cfg", "job"), ("--info", "config")])
def test_a_misspelt_option_is_corrected_when_the_configuration_is_only_shown(refused, what):
    said = refused("train", QUICK, "training.lrr=1", *what)
    assert "training.lrr: unknown key; did you mean 'training.lr'?" in said


def test_the_composed_configuration_goes_to_stdout_and_nothing_else_does(embedrun):
    shown = embedrun("train", QUICK, "training.lr=0.25", "--cfg", "job")
    assert (shown.code, shown.err) == (0, "")
    config = yaml.safe_load(shown.out)
    assert (config["name"], config["training"]["lr"]) == ("quickstart", 0.25)
    assert "hydra" not in config
    assert not list(Path.cwd().iterdir())


def test_one_part_of_the_configuration_can_be_shown(embedrun):
    shown = embedrun("train", QUICK, "--cfg", "job", "--package", "tracking")
    assert shown.out.startswith("# @package tracking\n")
    assert list(yaml.safe_load(shown.out))[:2] == ["log_every", "wandb"]
    assert shown.err == ""


def test_how_the_configuration_was_composed_can_be_shown(embedrun):
    shown = embedrun("train", QUICK, "--info", "defaults")
    assert (shown.code, shown.err) == (0, "")
    assert "experiment/quickstart" in shown.out


@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_an_experiment_is_chosen_with_and_without_a_plus(embedrun, sign):
    shown = embedrun("train", f"{sign}experiment=quickstart", "--cfg", "job")
    assert shown.code == 0
    assert yaml.safe_load(shown.out)["name"] == "quickstart"


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


def test_a_missing_value_stays_visible_in_the_plain_data():
    assert composed(request("dataset=pairs")).config["dataset"]["path"] == "???"


def test_a_run_directory_is_known_only_if_the_user_gave_one():
    assert composed(request(QUICK)).directory is None
    assert composed(request(QUICK, "hydra.run.dir=a/b")).directory == "a/b"
    assert composed(request(QUICK), job=1).directory is None
    given = composed(request(QUICK, "hydra.sweep.dir=s"), job=1)
    assert (given.directory, given.parent) == ("s/1", "s")
    named = composed(request(QUICK, "hydra.sweep.dir=s", "hydra.sweep.subdir=seed${seed}"), job=1)
    assert named.directory == "s/seed42"
    assert composed(request(QUICK, "hydra.sweep.subdir=x"), job=1).directory == "x"


def test_overrides_about_hydra_are_not_the_runs_own():
    given = composed(request(QUICK, "seed=1", "hydra.run.dir=a"))
    assert given.overrides == (QUICK, "seed=1")


def test_a_sweep_is_every_combination_in_order():
    jobs = sweep(request(QUICK, "seed=1,2", "loss=angle,cosent", "hydra.sweep.dir=s"))
    assert [job[2:] for job in jobs] == [
        ["seed=1", "loss=angle"],
        ["seed=1", "loss=cosent"],
        ["seed=2", "loss=angle"],
        ["seed=2", "loss=cosent"],
    ]
    assert all(job[:2] == ["hydra.sweep.dir=s", QUICK] for job in jobs)


def test_an_experiment_can_be_swept_over(own):
    folder = own("experiment/mine.yaml", "# @package _global_\ndefaults: [quickstart]\nname: mine\n")
    given = request("+experiment=quickstart,mine", config_dir=folder)
    assert [composed(given, job).config["name"] for job in sweep(given)] == ["quickstart", "mine"]


def test_a_glob_is_a_job_for_each_choice_that_fits_of_ours_and_of_the_users(own):
    folder = own("loss/cosent_own.yaml", "defaults: [cosent]\n")
    jobs = sweep(request(QUICK, "loss=glob(cosent*)", config_dir=folder))
    assert [job[-1] for job in jobs] == ["loss=cosent", "loss=cosent_own"]


def test_a_glob_that_fits_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"no jobs; an option has no value left, such as a glob"):
        sweep(request(QUICK, "loss=glob(nothing*)"))


def test_a_preset_can_be_a_sweep(own):
    hydra = "hydra:\n  mode: MULTIRUN\n  sweeper:\n    params:\n      seed: 1,2\n"
    folder = own("experiment/seeds.yaml", f"# @package _global_\ndefaults: [quickstart]\n{hydra}")
    given = request("+experiment=seeds", config_dir=folder)
    assert composed(given).multirun
    assert [composed(given, job).config["seed"] for job in sweep(given)] == [1, 2]


def test_only_options_are_let_in_when_unknown():
    given = [
        "seed=1",
        "x.y=2",
        "loss=angle",
        "+a=1",
        "++b=1",
        "~c",
        "hydra.run.dir=x",
        "hydra/launcher=basic",
    ]
    assert loosened(request(), given) == ["++seed=1", "++x.y=2", *given[2:]]


@pytest.mark.parametrize(
    ("command", "overrides"),
    [
        ("train", ("+experiment=quickstart", "pooling=max", "training.lr=3e-5", "seed=3", "name=other")),
        ("train", ("+experiment=arccse_bert", "loss.terms.arccon.margin=4", "++loss.terms.arccon.weight=2")),
        ("train", ("training.lr=5", "training={lr: 1}", "+experiment=quickstart", "loss=cosent")),
        ("train", ("hydra.run.dir=some/where", "+experiment=quickstart", "hydra.mode=RUN", "seed=3")),
        ("evaluate", ("model=run:arccse_bert", "evaluation=geometry", "~evaluation.tasks.geometry")),
    ],
)
def test_the_result_is_what_hydra_composes(command: str, overrides: tuple[str, ...]):
    found = composed(Request(command, overrides)).config
    with initialize_config_dir(str(presets.folder()), version_base=None):
        whole = compose(command, list(overrides))
    assert found == OmegaConf.to_container(whole, resolve=True)


def test_a_choice_is_composed_once_and_stays_as_it_was():
    first = compositions().config("train", ("+experiment=quickstart", "training.lr=1"))
    second = compositions().config("train", ("+experiment=quickstart",))
    assert first["training"]["lr"] == 1
    assert second["training"]["lr"] != 1


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
        (("loss=angle_toy",), 4.5),
        (OWN, None),
        ((*OWN, "loss=angle_toy"), None),
        ((*OWN, "dataset.score_range=[1,5]"), 4.0),
        ((*OWN, "dataset.score_range=[0,1]", "loss=simcse_three_way"), 0.75),
        ((*OWN, "dataset.score_range=[5,1]"), None),  # refused where the data set is made
        ((*OWN, "dataset.score_range=[1,5]", GIVEN), 2),
        ((*OWN, GIVEN), 2),
        ((*OWN, "loss=angle_binary"), 1.0),
        ((*OWN, "loss=angle_without_ibn"), 1.0),  # without weight, as it was in the hash of runs of before
    ],
)
def test_a_bound_for_a_known_scale_does_not_hold_for_pairs_of_the_users_own(overrides, bound):
    terms = composed(request("loss=angle", "dataset=toy", *overrides)).config["loss"]["terms"]
    assert terms["in_batch_negatives"]["positive_from"] == bound


TEST = (*OWN, "dataset.test=t.csv")
HUB = "dataset.path=hf://datasets/o/n"


@pytest.mark.parametrize(
    ("overrides", "tasks"),
    [
        ((), ["sts"]),
        (OWN, []),
        (TEST, ["heldout"]),
        ((*TEST, "evaluation=auto", "evaluation.tasks.heldout.interval_draws=0"), ["heldout"]),
        ((*TEST, "dataset.columns={text1: a, text2: b, label: c}"), ["heldout"]),
        ((*TEST, "dataset.columns=3"), ["heldout"]),  # refused where options are checked
        ((*OWN, "dataset.split={train: 0.8, test: 0.2}"), ["heldout"]),
        (
            ("dataset=triplets", "dataset.path=hf://datasets/o/n", "dataset.splits={train: a, test: b}"),
            ["heldout"],
        ),
        ((*TEST, "evaluation=[auto]"), ["heldout"]),
        ((*TEST, "evaluation='auto'"), ["heldout"]),
        ((*OWN, "evaluation=[auto]"), []),
        ((*TEST, "evaluation=[auto,retrieval]"), ["heldout", "retrieval"]),
        ((*OWN, "evaluation=[retrieval,auto]"), ["retrieval"]),
        (("dataset=stsb", "evaluation=[auto,retrieval]"), ["sts", "retrieval"]),
        ((*TEST, "evaluation=stsb"), ["sts"]),
        ((*OWN, "evaluation.tasks.sts.sets=[stsb]"), ["sts"]),
        ((*OWN, "+experiment=simcse_bert", "dataset=pairs"), ["sts"]),  # which names it
    ],
)
def test_ones_own_rows_are_scored_on_their_test_split_or_not_at_all_unless_something_else_is_named(
    overrides, tasks
):
    assert list(composed(request(*overrides)).config["evaluation"]["tasks"]) == tasks


def test_an_option_of_sts_alone_keeps_its_others_as_they_are():
    tasks = composed(request(*OWN, "evaluation.tasks.sts.sets=[stsb]")).config["evaluation"]["tasks"]
    assert tasks == composed(request("evaluation.tasks.sts.sets=[stsb]")).config["evaluation"]["tasks"]
    assert "subsets" in tasks["sts"]


def test_tasks_that_a_preset_of_the_users_own_gives_options_are_named_by_it(tmp_path):
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\nevaluation: {tasks: {sts: {sets: [stsb]}}}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    found = composed(Request.typed("train", [*TEST, "experiment=mine"], tmp_path))
    typed = composed(request(*TEST, "evaluation.tasks.sts.sets=[stsb]"))
    assert found.config["evaluation"] == typed.config["evaluation"]


def test_what_stands_for_auto_is_known_beside_what_was_typed():
    found = composed(request(*TEST, "evaluation=auto"))
    assert (found.added, found.overrides) == (("evaluation=heldout",), (*TEST, "evaluation=auto"))
    assert composed(request()).added == ()


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [("[auto]", "heldout"), ("[auto,geometry]", "[heldout,geometry]"), ("[sts]", "[sts]")],
)
def test_a_list_with_auto_is_recorded_as_what_is_scored(typed: str, chosen: str):
    assert composed(request(*TEST, f"evaluation={typed}")).choices["evaluation"] == chosen


@pytest.mark.parametrize("value", ["9" * 5_000, "[1," * 50 + "9" * 5_000 + "]" * 50])
def test_a_number_of_more_digits_than_python_reads_is_refused(value: str):
    with pytest.raises(ConfigError, match=r"the configuration cannot be composed .*4300 digits"):
        composed(request(f"seed={value}"))


def test_a_long_word_in_place_of_a_kind_of_data_set_is_no_such_choice():
    with pytest.raises(ConfigError, match=r"dataset=x+: no such choice"):
        composed(request(f"dataset={'x' * 300}"))


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


def test_a_folder_of_presets_may_have_a_quote_in_its_name(tmp_path):
    folder = tmp_path / "it's, mine"
    (folder / "loss").mkdir(parents=True)
    (folder / "loss/mine.yaml").write_text("defaults: [cosent]\nname: mine\n")
    assert composed(request(QUICK, "loss=mine", config_dir=folder)).config["loss"]["name"] == "mine"


def test_files_of_another_folder_are_read_for_each_composition(own):
    for name in ("one", "two"):
        folder = own("loss/mine.yaml", f"defaults: [cosent]\nname: {name}\n")
        found = composed(request(QUICK, "loss=mine", config_dir=folder)).config
        assert found["loss"]["name"] == name
