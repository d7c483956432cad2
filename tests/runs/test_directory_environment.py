import json
import subprocess
from pathlib import Path

import pytest

from embedrun.runs import directory
from embedrun.runs.directory import describe

CPUINFO = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").is_file() else ""


def test_no_secret_of_the_environment_is_recorded(monkeypatch):
    for name in ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.setenv(name, f"canary-{name}")
    text = json.dumps(describe({}))
    assert "canary" not in text
    assert "HF_TOKEN" not in text


@pytest.mark.skipif("model name" not in CPUINFO, reason="Linux names no processor here")
def test_the_processor_is_recorded_by_its_name():
    assert f": {describe({})['cpu']['type']}\n" in CPUINFO


def test_commit_and_changes_of_a_checkout_are_recorded_where_git_knows_them(tmp_path, monkeypatch):
    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    monkeypatch.setattr(directory, "__file__", str(tmp_path / "embedrun" / "runs" / "directory.py"))
    assert describe({})["code"] is None  # an installed package
    git("init", "-q")
    assert describe({})["code"] is None  # git cannot say
    git("commit", "--allow-empty", "-qm", "x")
    assert describe({})["code"] == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "new").touch()
    assert describe({})["code"]["dirty"] is True
