"""What is frozen: configuration hashes, and what the filter of `tests/trials/frozen.py` leaves as it is."""

import json
from pathlib import Path

import frozen
import pytest

from embedrun.runs.directory import config_hash
from embedrun.table.cells import identity

HASHES = json.loads((Path(__file__).parent / "golden" / "config_hashes.json").read_text(encoding="utf-8"))


def test_a_configuration_of_before_keeps_its_hash_and_its_key_in_tables():
    for name in HASHES:
        assert config_hash(HASHES[name]["config"]) == HASHES[name]["sha256"]
        assert identity(HASHES[name]["config"], lambda model: None) == HASHES[name]["identity"]


def test_a_changed_score_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, score in (("one", 36.72), ("other", 36.73)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(
            json.dumps({"scores": score, "seconds": {"train": score}})
        )
    assert frozen.compare(tmp_path / "one", tmp_path / "one") == 0
    assert frozen.compare(tmp_path / "one", tmp_path / "other") == 1
    assert "results.json" in capsys.readouterr().out
