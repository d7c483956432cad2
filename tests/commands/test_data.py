import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.commands.data import main
from embedrun.errors import ConfigError, DataError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of three whole files."""
    contents = {
        "own/dev.tsv.gz": "score\ttext\n0\ta\n5\tb\n",
        "own/test.tsv.gz": "score\ttext\n0\tc\n5\td\n",
        "wiki/head.txt.gz": "one\ntwo\n",
    }
    manifest = []
    for name, text in contents.items():
        packed = gzip.compress(text.encode())
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(packed)
        entry = {
            "path": name,
            "bytes": len(packed),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "rows": 2,
        }
        manifest.append(entry if "wiki" in name else {**entry, "columns": ["score", "text"]})
    (tmp_path / "MANIFEST.json").write_text(json.dumps(manifest))
    return tmp_path


def test_list_shows_what_is_present_missing_and_not_in_the_manifest(root, capsys):
    (root / "own/test.tsv.gz").unlink()
    (root / "wiki/mine.txt.gz").write_bytes(b"1234")
    assert main(["list", "--files", "--data-dir", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"data folder {root}"
    states = {line.split()[0]: line.split(maxsplit=3)[3] for line in lines[3:-1]}
    assert states == {
        "own/dev.tsv.gz": "present",
        "own/test.tsv.gz": "missing",
        "wiki/head.txt.gz": "present",
        "wiki/mine.txt.gz": "not in the manifest",
    }
    assert lines[-1] == "3 files in the manifest, 2 present, 1 missing"


def test_the_folder_is_also_found_by_the_variable(root, capsys, monkeypatch):
    monkeypatch.setenv("EMBEDRUN_DATA", str(root))
    assert main(["check"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "own/dev.tsv.gz: whole",
        "own/test.tsv.gz: whole",
        "wiki/head.txt.gz: whole",
        "3 files checked, 3 whole, 0 faulty",
    ]


def test_check_lists_all_faults_of_all_files(root, capsys):
    (root / "own/dev.tsv.gz").unlink()
    (root / "wiki/head.txt.gz").write_bytes(gzip.compress(b"one\n"))
    with pytest.raises(DataError) as caught:
        main(["check", "--data-dir", str(root)])
    assert caught.value.exit_code == 3
    assert any(problem.startswith("own/dev.tsv.gz: not in") for problem in caught.value.problems)
    assert f"{root / 'wiki/head.txt.gz'}: 1 rows, the manifest says 2" in caught.value.problems
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["own/dev.tsv.gz: 1 fault", "own/test.tsv.gz: whole"]
    assert lines[-1] == "3 files checked, 1 whole, 2 faulty"


@pytest.mark.parametrize("name", ["own", "own/", "dev", "own/dev.tsv.gz"])
def test_check_takes_a_folder_a_file_or_its_stem(root, capsys, name):
    (root / "wiki/head.txt.gz").unlink()
    assert main(["check", name, "--data-dir", str(root)]) == 0
    assert "own/dev.tsv.gz: whole" in capsys.readouterr().out


def test_an_unknown_name_gets_the_nearest(root):
    with pytest.raises(ConfigError) as caught:
        main(["check", "stbs", "wikis", "--data-dir", str(root)])
    assert [problem.partition(";")[0] for problem in caught.value.problems] == [
        "embedrun data check: nothing is named 'stbs'",
        "embedrun data check: nothing is named 'wikis'",
    ]
    assert "did you mean 'wiki'?" in caught.value.problems[1]


def test_a_missing_store_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"EMBEDRUN_DATA=DIR .*\+experiment=quickstart"):
        main(["list", "--files", "--data-dir", str(tmp_path / "none")])


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "list|get|check|audit"),
        (["audti"], "no action 'audti'; did you mean 'audit'?"),
        (["audit"], "the following arguments are required: TRAIN"),
        (["chek"], "no action 'chek'; did you mean 'check'?"),
        (["list", "--dir", "x"], "unrecognized arguments"),
        (["list", "stsb"], "unrecognized arguments"),
        (["check", "--data-dir"], "expected one argument"),
    ],
)
def test_a_faulty_command_line_is_a_config_error(argv, reason):
    with pytest.raises(ConfigError) as caught:
        main(argv)
    assert caught.value.exit_code == 2
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "argv", [["--help"], ["list", "--help"], ["check", "-h"], ["audit", "--help"], ["get", "-h"]]
)
def test_help_ends_well_and_shows_examples(argv, capsys):
    assert main(argv) == 0
    assert capsys.readouterr().out.count("\n  embedrun data ") >= 2


@pytest.mark.realdata
def test_the_real_store_is_whole(capsys):
    assert main(["check", "--data-dir", os.environ["EMBEDRUN_DATA"]]) == 0
    assert capsys.readouterr().out.endswith(" 0 faulty\n")


def _rewrite(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    path.write_bytes(gzip.compress("".join(change(lines)).encode()))


def _cut(path: Path) -> None:
    _rewrite(path, lambda lines: [*lines[:100], *lines[101:]])


def _flip(path: Path) -> None:
    packed = bytearray(path.read_bytes())
    packed[len(packed) // 2] ^= 0x01
    path.write_bytes(packed)


def _score_7(path: Path) -> None:
    def change(lines: list[str]) -> list[str]:
        fields = lines[9].split("\t")
        fields[lines[0].split("\t").index("score")] = "7"
        return [*lines[:9], "\t".join(fields), *lines[10:]]

    _rewrite(path, change)


def _label_3(path: Path) -> None:
    _rewrite(path, lambda lines: [json.dumps({**json.loads(lines[0]), "label": 3}) + "\n", *lines[1:]])


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("stsb/dev.tsv.gz", _cut, "1499 rows, the manifest says 1500"),
        ("nli/snli_dev.jsonl.gz", _cut, "9841 rows, the manifest says 9842"),
        ("sts/sts16.tsv.gz", _flip, "damaged or not a gzip file"),
        ("sickr/dev.tsv.gz", _score_7, "line 10: score 7 is outside 1 to 5"),
        ("nli/snli_test.jsonl.gz", _label_3, "line 1: label 3 is none of 0, 1, 2"),
    ],
)
def test_damage_to_a_copy_of_the_real_store_is_found(tmp_path, name, damage, reason):
    real = Path(os.environ["EMBEDRUN_DATA"])
    (tmp_path / name).parent.mkdir()
    shutil.copyfile(real / "MANIFEST.json", tmp_path / "MANIFEST.json")
    shutil.copyfile(real / name, tmp_path / name)
    assert main(["check", name, "--data-dir", str(tmp_path)]) == 0
    damage(tmp_path / name)
    with pytest.raises(DataError) as caught:
        main(["check", name, "--data-dir", str(tmp_path)])
    assert any(reason in problem for problem in caught.value.problems)
    assert any("sha256" in problem for problem in caught.value.problems)


def test_list_shows_data_sets_with_licence_and_presets_even_where_there_is_no_store(tmp_path, capsys):
    assert main(["list", "--data-dir", str(tmp_path / "none")]) == 0
    lines = {line.split("  ")[0].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert "0 of 3" in lines["sickr"]
    assert "CC BY-NC-SA 3.0" in lines["sickr"]
    assert "angle_bert" in lines["sickr"]


def test_get_is_a_command_of_its_own(capsys):
    assert main(["get", "--help"]) == 0
    assert "--from FOLDER" in capsys.readouterr().out
