import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from embedrun.runs import directory
from embedrun.runs.directory import describe


def test_no_secret_of_the_environment_is_recorded(monkeypatch):
    for name in ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.setenv(name, f"canary-{name}")
    text = json.dumps(describe({}))
    assert "canary" not in text
    assert "HF_TOKEN" not in text


def test_listed_variables_are_recorded(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    variables = describe({})["variables"]
    assert variables["CUDA_VISIBLE_DEVICES"] == ""
    assert "SLURM_JOB_ID" not in variables


def test_the_command_line_is_recorded_as_a_shell_would_take_it_and_clean(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/some/where/embedrun", "train", "name=a b", "\udcff\x1b"])
    assert describe({})["command"] == "embedrun train 'name=a b' '\ufffd\ufffd'"


def test_versions_and_fingerprints_are_recorded():
    import torch

    found = describe({"stsb/test": "abc"})
    assert found["data"] == {"stsb/test": "abc"}
    assert found["versions"]["torch"] == version("torch")  # of which torch.__version__ may say more: +cu130
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["cpu"]["threads"] == torch.get_num_threads()


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr(directory, "_PACKAGES", ("no-such-package",))
    assert describe({})["versions"] == {"no-such-package": None}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(directory, "__file__", str(tmp_path / "embedrun" / "runs" / "directory.py"))
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.mark.parametrize(("changes", "dirty"), [("", False), (" M README.md", True)])
def test_commit_and_dirtiness_of_a_checkout_are_recorded(checkout, monkeypatch, changes: str, dirty: bool):
    answers = {"rev-parse": "abc123", "status": changes}
    monkeypatch.setattr(directory, "_git", lambda root, word, *_: answers[word] if root == checkout else None)
    assert describe({})["code"] == {"commit": "abc123", "dirty": dirty}


@pytest.mark.parametrize(
    "fault",
    [FileNotFoundError("git"), subprocess.TimeoutExpired("git", 10), subprocess.CalledProcessError(1, "git")],
)
def test_a_git_that_does_not_answer_is_no_failure(checkout, monkeypatch, fault: Exception):
    def fail(*_: object) -> str:
        raise fault

    monkeypatch.setattr(directory, "_git", fail)
    assert describe({})["code"] is None


def test_an_installed_package_has_no_commit(checkout):
    (checkout / ".git").rmdir()
    assert describe({})["code"] is None
