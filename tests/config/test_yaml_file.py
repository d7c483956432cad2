"""A user's YAML file is its command line: the same configuration, the same refusals."""

import pytest

from embedrun.cli import main
from embedrun.config import yaml_file
from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.errors import ConfigError


def config(*words: str, command: str = "train"):
    return composed(Request.typed(command, yaml_file.expanded(words, command))).config


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(text: str) -> str:
        (tmp_path / "my.yaml").write_text(text)
        return "my.yaml"

    return written


def test_a_file_is_the_command_line_that_it_stands_for(file):
    name = file(
        "experiment: quickstart\nloss: cosent\ntraining: {lr: 1e-3, max_steps: 5}\nname: 'a: b'\n"
        "dataset: {train_rows: 7}\n"
    )
    typed = ("training.lr=1e-3", "training.max_steps=5", "name='a: b'", "dataset.train_rows=7")
    assert config(name) == config("+experiment=quickstart", "loss=cosent", *typed)


def test_a_defaults_list_chooses_and_mappings_that_are_options_stay_whole(file):
    name = file(
        "defaults:\n  - override /dataset: pairs\n  - loss: cosent\n  - _self_\n"
        "dataset: {path: a.csv, columns: {text1: q, text2: a}}\n"
        "evaluation: {tasks: {fast: {name: senteval, protocol: fast}}}\n"
    )
    read = config(name)
    assert read["dataset"]["columns"] == {"text1": "q", "text2": "a"}
    assert list(read["loss"]["terms"]) == ["cosent"]
    assert read["evaluation"]["tasks"]["fast"] == {"name": "senteval", "protocol": "fast"}


def test_what_is_typed_takes_precedence_wherever_it_stands(file):
    name = file("loss: cosent\ntraining: {lr: 1e-3}\n")
    for words in ([name, "training.lr=2e-3", "loss=angle"], ["training.lr=2e-3", "loss=angle", name]):
        read = config(*words)
        assert (read["training"]["lr"], len(read["loss"]["terms"])) == (2e-3, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loss: {terms: {x: {_target_: os.system}}}", "may not name code to run"),
        ("training:\n  lr: ${oc.env:HF_TOKEN}", "HF_TOKEN"),
        ("hydra: {callbacks: {a: {_target_: b}}}", "hydra.callbacks"),
        ("- a\n- b\n", "expected options"),
        ("a: [", "cannot be read as YAML"),
        ("defaults: [angle]", "defaults: expected entries"),
        ("loss: angel", "did you mean 'angle'"),
    ],
)
def test_a_file_that_names_code_or_is_none_is_refused(file, monkeypatch, text, said):
    monkeypatch.setenv("HF_TOKEN", "secret")
    with pytest.raises(ConfigError, match=said):
        config(file(text))
    with pytest.raises(ConfigError, match="no such file"):
        config("none.yaml")


@pytest.mark.parametrize(
    "words",
    [
        ["+experiment=angle_stsb", "pooling=mean", "training.lr=1e-5"],
        ["+experiment=raoe_s1_bert", "loss.terms.rank_margin.weight=2"],
        ["+experiment=arccse_bert", "evaluation=[sts,senteval_fast]"],
        ["dataset=pairs", "dataset.path=a.csv", "dataset.columns={text1: q, text2: a}", "dataset.test=b.csv"],
    ],
)
def test_what_write_saves_composes_the_same(tmp_path, words):
    path = tmp_path / "saved.yaml"
    request = Request.typed("train", words)
    yaml_file.write(path, request, {"training.lr": "peak learning rate"})
    assert config(str(path)) == composed(request).config
    if "training.lr=1e-5" in words:
        assert "  lr: 1e-05  # peak learning rate\n" in path.read_text()
    with pytest.raises(ConfigError, match="exists"):
        yaml_file.write(path, request, {})


def test_a_deletion_is_not_written(tmp_path):
    path = tmp_path / "saved.yaml"
    with pytest.raises(ConfigError, match="cannot delete an option"):
        yaml_file.write(path, Request.typed("train", ["dataset=toy", "~loss.terms.angle"]), {})
    assert not path.exists()


def test_every_command_that_composes_a_run_takes_a_file(file, capsys):
    name = file("name: mine\n")
    for command in ("train", "check", "evaluate"):
        assert main([command, name, "--cfg", "job"]) == 0
        assert "name: mine\n" in capsys.readouterr().out
    assert main(["evaluate", "some/model", file("model: other\n"), "--cfg", "job"]) == 0
    assert "model: some/model\n" in capsys.readouterr().out
    assert main(["train", "name=mine", "--write", "/proc/more.yaml"]) == 2
    assert main(["train", "name=mine", "--write", "more.yaml"]) == 0
    assert main(["train", "more.yaml", "--cfg", "job"]) == 0
    assert main(["train"]) == 2
    assert "embedrun train FILE.yaml" in capsys.readouterr().err
