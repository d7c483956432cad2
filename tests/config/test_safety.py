from pathlib import Path

import pytest
import yaml

from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.errors import ConfigError

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

# Each ran a command, wrote a file or loaded code when a configuration named it; Hydra blocks only some.
HOSTILE = (
    "os.system", "posix.system", "subprocess.run", "builtins.eval", "pickle.loads", "dill.loads",
    "timeit.timeit", "cProfile.run", "shutil.rmtree", "sympy.sympify", "torch.utils.collect_env.run",
    "torch.hub.load", "torch.utils.cpp_extension.load_inline", "pandas.read_pickle", "joblib.load",
    "torch.load", "transformers.AutoModel.from_pretrained", "urllib.request.urlretrieve", "pandas.eval",
    "pathlib.Path.write_text", "runpy.run_path",
)  # fmt: skip
# Hydra builds this one without complaint; it makes a file.
TOUCH = {"_target_": "sympy.sympify", "a": "__import__('pathlib').Path('canary').touch()"}
QUICK = "+experiment=quickstart"


def experiment(content: dict, *defaults: dict | str) -> str:
    body = {"defaults": ["quickstart", *defaults, "_self_"], **content}
    return "# @package _global_\n" + yaml.safe_dump(body, sort_keys=False)


def flow(data: object) -> str:
    """A mapping as the command line takes it."""
    if isinstance(data, dict):
        return "{" + ",".join(f"{key}: {flow(value)}" for key, value in data.items()) + "}"
    return '"' + str(data).replace('"', '\\"') + '"'


def refusal(*overrides: str, config_dir: Path | None = None) -> str:
    """The problems of a training configuration that may not be composed."""
    with pytest.raises(ConfigError) as caught:
        composed(Request("train", overrides, config_dir=config_dir))
    return "\n".join(caught.value.problems)


@pytest.fixture(autouse=True)
def _no_canary():
    yield
    assert not Path("canary").exists()


@pytest.mark.parametrize("multirun", [(), ("-m",)])
def test_no_override_names_code(refused, multirun):
    given = [f"+loss.terms.t{i}._target_={name}" for i, name in enumerate(HOSTILE)]
    said = refused("train", QUICK, *given, *multirun)
    assert f"config has {len(HOSTILE)} problems" in said
    for number in range(len(HOSTILE)):
        assert f"loss.terms.t{number}._target_: configuration is data and may not name code to run" in said


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_no_experiment_file_names_code(refused, own, command):
    terms = {f"t{i}": {"_target_": name, "weight": 1.0} for i, name in enumerate(HOSTILE)}
    body = "# @package _global_\n" + yaml.safe_dump({"loss": {"terms": terms}})
    said = refused(command, "+experiment=evil", "--config-dir", own("experiment/evil.yaml", body))
    assert f"config has {len(HOSTILE)} problems" in said
    assert "loss.terms.t20._target_" in said


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("++training._target_=os.system", "training._target_"),
        ("+x=[{_target_: os.system}]", "x[0]._target_"),
        ("+x=[[1,{a: [{_target_: os.system}]}]]", "x[0][1].a[0]._target_"),
        ("+dataset._partial_=true", "dataset._partial_"),
        ("+loss.terms.angle._args_=[1]", "loss.terms.angle._args_"),
        ("loss.terms.angle={_target_: os.system}", "loss.terms.angle._target_"),
    ],
)
def test_code_is_found_however_deep(override, where):
    assert refusal(QUICK, override).startswith(f"{where}: configuration is data")


@pytest.mark.parametrize(
    ("content", "defaults", "where"),
    [
        ({"hydra": {"callbacks": {"x": TOUCH}}}, (), "hydra.callbacks.x:"),
        ({"hydra": {"launcher": {"_target_": "os.system"}}}, (), "hydra.launcher"),
        ({"hydra": {"sweeper": {"_target_": "os.system"}}}, (), "hydra.sweeper"),
        ({"hydra": {"sweeper": {"params": TOUCH}}}, (), "hydra.sweeper.params._target_"),
        ({"hydra": {"job": {"env_set": {"PATH": "/evil"}}}}, (), "hydra.job.env_set:"),
        ({"hydra": {"job": {"chdir": True}}}, (), "hydra.job.chdir:"),
        ({"hydra": {"job_logging": {"handlers": {"x": {"()": "os.system"}}}}}, (), "hydra.job_logging"),
        ({"hydra": {"hydra_logging": {"handlers": {"x": {"()": "os.system"}}}}}, (), "hydra.hydra_logging"),
        ({}, ({"override /hydra/launcher": "joblib"},), "joblib"),
        ({"hydra": {"searchpath": ["file:///tmp"]}}, (), "hydra.searchpath"),
    ],
)
def test_no_experiment_file_changes_how_hydra_works(own, content, defaults, where):
    folder = own("experiment/evil.yaml", experiment(content, *defaults))
    assert where in refusal("+experiment=evil", config_dir=folder)


def test_an_experiment_file_may_not_choose_another_launcher(refused, own):
    # The same launcher under another group name, since only the basic one is sure to be installed.
    folder = own("experiment/evil.yaml", experiment({}, {"override /hydra/launcher": "mine"}))
    own("hydra/launcher/mine.yaml", "_target_: hydra._internal.core_plugins.basic_launcher.BasicLauncher\n")
    said = refused("train", "+experiment=evil", "--config-dir", folder)
    assert "Hydra's own groups may not be added to" in said


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("hydra.searchpath=[file:///tmp]", "hydra.searchpath:"),
        ("++hydra.searchpath=[file:///tmp]", "hydra.searchpath:"),
        (f"+hydra.callbacks.x={flow(TOUCH)}", "hydra.callbacks.x:"),
        ("hydra.job.chdir=true", "hydra.job.chdir:"),
        ("+hydra.job.env_set.PATH=/evil", "hydra.job.env_set.PATH:"),
        ("~hydra.run", "hydra.run:"),
        ("hydra/job_logging=default", "hydra/job_logging:"),
        ("+hydra/callbacks=x", "hydra/callbacks:"),
        ("hydra/launcher=evil", "hydra/launcher=evil: no such choice"),
        ("hydra/launcher=basic,joblib", "hydra/launcher: "),
        ("hydra.launcher._target_=os.system", "hydra.launcher._target_:"),
        (f"+hydra.launcher.x={flow(TOUCH)}", "hydra.launcher.x._target_:"),
        ("hydra.sweeper._target_=os.system", "hydra.sweeper._target_:"),
        ("hydra.sweeper.max_batch_size=1", "hydra.sweeper.max_batch_size:"),
        ("+loss@hydra.launcher.x=angle", "hydra.launcher"),
    ],
)
def test_no_override_changes_how_hydra_works(override, where):
    assert where in refusal(QUICK, override)


def test_an_interpolation_cannot_hide_code_from_the_check(refused, own):
    hidden = {"hydra": {"launcher": {"x": "${oc.create:${tracking}}"}}}
    folder = own("experiment/evil.yaml", experiment(hidden))
    refused("train", "+experiment=evil", "-m", "--config-dir", folder)
    created = "\"${oc.create:'{_target_: sympy.sympify, a: 1}'}\""
    assert "hydra.launcher.x._target_" in refused("train", QUICK, "-m", f"+hydra.launcher.x={created}")


@pytest.mark.parametrize("choice", ["../loss/angle", "/etc/passwd"])
@pytest.mark.parametrize("group", ["loss", "+experiment"])
def test_a_choice_cannot_lead_out_of_its_folder(group, choice):
    said = refusal(f"{group}={choice}")
    assert f"{group.lstrip('+')}={choice}: leads out of the folder of its group" in said


@pytest.mark.parametrize("name", ["../x", "/abs", ".hidden", "x" * 101])
def test_a_run_name_cannot_lead_out_of_outputs(refused, name):
    assert "name: expected up to 100 letters" in refused("train", QUICK, f"name='{name}'")


@pytest.mark.parametrize("shown", [("--cfg", "job", "--resolve"), ("-m", "seed=1,2")])
@pytest.mark.parametrize("override", ["name=${oc.env:HF_TOKEN}", "name='x${oc.decode:${oc.env:HF_TOKEN,x}}'"])
def test_a_secret_cannot_be_read_from_the_environment(refused, monkeypatch, override, shown):
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    said = refused("train", QUICK, override, *shown)
    assert "may not read the environment variable 'HF_TOKEN', only EMBEDRUN_DATA, HOME, USER" in said
    assert "canary" not in said


def test_a_harmless_variable_can_be_read(embedrun, monkeypatch):
    monkeypatch.setenv("USER", "alice")
    shown = embedrun("train", QUICK, "name=of-${oc.env:USER}", "--cfg", "job", "--resolve")
    assert (shown.code, shown.err) == (0, "")
    assert yaml.safe_load(shown.out)["name"] == "of-alice"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1\n", "expected ',' or ']'"),
        ("a: !!python/object/apply:os.system ['touch canary']\n", "python/object/apply"),
    ],
)
def test_a_file_that_is_no_plain_yaml_is_refused_by_name(refused, own, text, words):
    said = refused("train", "+experiment=evil", "--config-dir", own("experiment/evil.yaml", text))
    assert words in said
    assert "evil.yaml" in said
