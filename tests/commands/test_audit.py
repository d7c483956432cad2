import gzip
import json
import os
from pathlib import Path

import pytest

from embedrun.commands import data
from embedrun.commands.data import _audit
from embedrun.errors import ConfigError, DataError

HEADER = "subset\tscore\tsentence1\tsentence2"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """STS-B train of two pairs; STS12 of three, one of them from there; STS13 of two, one sentence shared."""
    files = {
        "stsb/train": ["x\t5\tA dog runs\tThe dog is running", "x\t0\tIt rains\tA cat sleeps"],
        "stsb/dev": ["x\t1\tIt rains\tA cat sleeps"],
        "sts/sts12": ["p\t5\tthe dog is running!\ta dog runs", "p\t1\tno\tyes", "q\t2\tone\ttwo"],
        "sts/sts13": ["r\t1\tIt rains.\tnothing", "r\t1\tthree\tfour"],
    }
    for name, rows in files.items():
        path = tmp_path / f"{name}.tsv.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(("\n".join([HEADER, *rows]) + "\n").encode()))
    return tmp_path


def cells(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_each_set_and_the_total_have_a_line(store, capsys):
    assert _audit(["stsb", "sts12", "sts13", "--data-dir", str(store)]) == 0
    captured = capsys.readouterr()
    assert cells(captured.out)[2:] == [
        ["sts12", "test", "3", "1", "33.3", "1", "33.3"],
        ["sts13", "test", "2", "0", "0.0", "1", "50.0"],
        ["total", "5", "1", "20.0", "2", "40.0"],
        [],
        ["1", "of", "5", "pairs", "(20.0", "%)", "are", "also", "in", "stsb", "train"],
    ]
    assert captured.err == "2 rows of stsb train as training data\n"


def test_subsets_have_a_line_on_request_and_are_not_counted_twice(store, capsys):
    assert _audit(["stsb", "--subsets", "sts12", "--data-dir", str(store)]) == 0
    assert cells(capsys.readouterr().out)[2:6] == [
        ["sts12", "test", "3", "1", "33.3", "1", "33.3"],
        ["p", "test", "2", "1", "50.0", "1", "50.0"],
        ["q", "test", "1", "0", "0.0", "0", "0.0"],
        ["total", "3", "1", "33.3", "1", "33.3"],
    ]


@pytest.mark.parametrize("argv", [["stsb", "--split", "dev", "sts13", "sts13"], ["stsb_dev", "sts13"]])
def test_another_split_can_be_taken_for_the_training_data_and_a_set_counts_once(store, capsys, argv):
    assert _audit([*argv, "--data-dir", str(store)]) == 0
    assert "0 of 2 pairs (0.0 %) are also in stsb dev" in capsys.readouterr().out


def test_a_dev_split_can_be_audited(store, capsys):
    assert _audit(["stsb", "stsb_dev", "--data-dir", str(store)]) == 0
    assert "1 of 1 pairs (100.0 %) are also in stsb train" in capsys.readouterr().out


def test_without_a_set_it_is_the_seven_test_sets(store):
    with pytest.raises(DataError) as caught:
        _audit(["stsb", "--data-dir", str(store)])
    assert caught.value.exit_code == 3
    (problem,) = caught.value.problems
    absent = (
        "sts/sts14.tsv.gz, sts/sts15.tsv.gz, sts/sts16.tsv.gz, stsb/test.tsv.gz, sickr/test.tsv.gz: not in"
    )
    assert problem.startswith(absent)


def test_single_texts_are_compared_by_sentence(store, capsys):
    images = [{"image_id": str(i), "captions": [f"caption {i}", "A DOG runs"]} for i in range(3)]
    (store / "flickr8k").mkdir()
    content = "".join(json.dumps(image) + "\n" for image in images)
    (store / "flickr8k" / "captions.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    assert _audit(["stsb", "sts12", "flickr8k", "--data-dir", str(store)]) == 0
    out = capsys.readouterr().out
    assert cells(out)[3] == ["flickr8k", "test", "6", "-", "-", "3", "50.0"]
    assert out.splitlines()[-2:] == [
        "1 of 3 pairs (33.3 %) are also in stsb train",
        "3 of 6 sentences (50.0 %) are also in stsb train",
    ]


def test_all_faulty_words_are_reported_together():
    with pytest.raises(ConfigError) as caught:
        _audit(["stbs", "nli", "pairs"])
    assert [problem.partition(" (")[0] for problem in caught.value.problems] == [
        "embedrun data audit: no data set 'stbs'; did you mean 'stsb'?",
        "embedrun data audit: nli has no test split",
        "embedrun data audit: the data set 'pairs' needs options",
    ]


@pytest.mark.realdata
def test_the_overlap_of_the_sts_benchmark_with_sts12_to_sts16(capsys):
    sets = ["sts12", "sts13", "sts14", "sts15", "sts16"]
    assert data.main(["audit", "stsb", *sets, "--data-dir", os.environ["EMBEDRUN_DATA"]]) == 0
    out = capsys.readouterr().out
    assert [line[:5] for line in cells(out)[2:7]] == [
        ["sts12", "test", "3,108", "1,003", "32.3"],
        ["sts13", "test", "1,500", "597", "39.8"],
        ["sts14", "test", "3,750", "1,861", "49.6"],
        ["sts15", "test", "3,000", "1,102", "36.7"],
        ["sts16", "test", "1,186", "197", "16.6"],
    ]
    assert out.endswith("\n4,760 of 12,544 pairs (37.9 %) are also in stsb train\n")


@pytest.mark.realdata
def test_captions_of_flickr30k_are_premises_of_snli(capsys):
    sets = ["nli", "flickr30k", "mscoco"]
    assert data.main(["audit", *sets, "--data-dir", os.environ["EMBEDRUN_DATA"]]) == 0
    found = {row[0]: row for row in cells(capsys.readouterr().out)[2:4]}
    assert found["flickr30k"][2] == "5,000"
    assert int(found["flickr30k"][5]) > 500 > 50 > int(found["mscoco"][5])  # over 10 %; nearly none of COCO
