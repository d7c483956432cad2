"""What is frozen: configuration hashes, and what the filter of `tests/trials/frozen.py` leaves as it is."""

import json
from pathlib import Path

import frozen
import pytest

from embedrun.runs.directory import config_hash
from embedrun.table.cells import identity

HASHES = json.loads((Path(__file__).parent / "golden" / "config_hashes.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", HASHES)
def test_a_configuration_of_before_keeps_its_hash_and_its_key_in_tables(name: str):
    assert config_hash(HASHES[name]["config"]) == HASHES[name]["sha256"]
    assert identity(HASHES[name]["config"], lambda model: None) == HASHES[name]["identity"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("run directory: outputs/quickstart/2026-11-22_12-06-50-f6252d", "outputs/quickstart/STAMP-f6252d"),
        ("toy_test/spearman 36.72", "toy_test/spearman 36.72"),
        ("6,000 rows of toy, 8 steps of 32 rows", "6,000 rows of toy, 8 steps of 32 rows"),
        ("time 2 min 4 s: load 6.0 s", "time SECONDS: load SECONDS"),
        ("train 136/1122 steps, 9.1/s, 1:48 left  loss 13.2589\n", ""),
        ("1,234 texts/s", "RATE"),
        ("embedrun.launch.job", "MODULE"),
    ],
)
def test_only_what_depends_on_clock_machine_or_module_is_filtered(text: str, left: str):
    assert left == frozen.filtered(text) or left in frozen.filtered(frozen.restamped(text))


def test_a_changed_score_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, score in (("one", 36.72), ("other", 36.73)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(
            json.dumps({"scores": score, "seconds": {"train": score}})
        )
    assert frozen.compare(tmp_path / "one", tmp_path / "one") == 0
    assert frozen.compare(tmp_path / "one", tmp_path / "other") == 1
    assert "results.json" in capsys.readouterr().out


def test_a_changed_byte_of_the_weights_is_seen(tmp_path: Path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
    assert frozen.compare(tmp_path / "one", tmp_path / "other") == 1
