"""Which model files a run began with."""

import shutil
from pathlib import Path

from embedrun.config import BackboneConfig, TeacherConfig
from embedrun.experiment.data import digest, of_models
from embedrun.training.step import Stepper

TEACHER = ("loss=mse_teacher", "training.teachers=[{name: teacher}]")


def spoil(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def test_the_digest_is_of_what_decides_a_vector_and_of_no_path(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_text("weights")
    (other / "README.md").write_text("a card")
    assert digest(one) == digest(other)
    spoil(other)
    assert digest(one) != digest(other)


def test_a_layer_behind_the_pooling_counts(tmp_path):
    (tmp_path / "2_Dense").mkdir()
    (tmp_path / "2_Dense" / "model.safetensors").write_text("weights")
    before = digest(tmp_path)
    spoil(tmp_path / "2_Dense")
    assert digest(tmp_path) != before


def test_the_model_and_every_teacher_have_a_fingerprint_and_a_model_from_nothing_has_none(tiny, tmp_path):
    model = str(shutil.copytree(tiny.path / "model", tmp_path / "model"))
    teachers = [TeacherConfig(name=str(tiny.path))]
    found = of_models(BackboneConfig(name=model), teachers)
    assert found == {f"model {name}": digest(tiny.path / "model") for name in (model, str(tiny.path))}
    assert of_models(BackboneConfig(name=None), None) == {}


def test_a_snapshot_of_the_hub_is_known_by_its_commit(tiny, tmp_path):
    folder = tmp_path / "snapshots" / "c0ffee"
    shutil.copytree(tiny.path / "model", folder)
    assert of_models(BackboneConfig(name=str(folder)), None) == {f"model {folder}": "c0ffee"}


def test_a_teacher_that_is_another_one_now_is_refused(embedrun, options, tiny, monkeypatch):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    shutil.copytree(tiny.path / "model", "teacher")
    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "take", stop)
        assert embedrun("train", *options, *TEACHER, "hydra.run.dir=run").code == 130
    spoil(Path("teacher"))
    ended = embedrun("resume", "run")
    assert ended.code == 2
    assert "model teacher: the files are not those that run began with; start in a run" in ended.err
