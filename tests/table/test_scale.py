from pathlib import Path

import pytest

from embedrun.errors import ConfigError
from embedrun.table.preset import Scale, load_scale, scales


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "scale").mkdir()
    return tmp_path


def written(conf: Path, text: str) -> Path:
    (conf / "scale" / "cpu_small.yaml").write_text(text, encoding="utf-8")
    return conf


def test_a_setting_is_its_title_overrides_and_seeds(conf: Path):
    written(conf, "{title: small, train: [training.max_steps=5], seeds: [1, 2]}")
    assert scales(conf) == ["cpu_small"]
    assert load_scale("cpu_small", conf) == Scale("cpu_small", "small", ("training.max_steps=5",), (), (1, 2))


def test_an_unknown_one_is_answered_with_the_nearest(conf: Path):
    written(conf, "{title: small}")
    with pytest.raises(
        ConfigError, match=r"--scale: no reduced setting 'cpu_smal'; did you mean 'cpu_small'"
    ):
        load_scale("cpu_smal", conf)


def test_every_fault_of_a_file_is_reported(conf: Path):
    written(conf, "{train: a=1, step: 3}")
    with pytest.raises(ConfigError) as refused:
        load_scale("cpu_small", conf)
    said = str(refused.value)
    assert "scale/cpu_small.yaml: title: no value given" in said
    assert "scale/cpu_small.yaml: train: expected" in said
    assert "scale/cpu_small.yaml: step: unknown key" in said


def test_what_is_not_yaml_is_refused(conf: Path):
    written(conf, "{title: [")
    with pytest.raises(ConfigError, match="not YAML"):
        load_scale("cpu_small", conf)


def test_no_folder_has_no_settings(tmp_path: Path):
    assert scales(tmp_path) == []
