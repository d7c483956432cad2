import contextlib
import gzip
import json

import pytest

from embedrun.curation.collection.collect import table_in
from embedrun.curation.collection.output import Output, write_provenance, write_split
from embedrun.curation.collection.pairs import Pair
from embedrun.errors import DataError, EmbedrunError
from embedrun.store import Store, verify

PAIRS = [Pair("o/r", 2, 1, 1), Pair("o/r", 2, 3, 0)]
TEXTS = {"o/r": {1: "one\n\nbody", 2: "zwei ü\ttab", 3: "three"}}


def test_a_split_is_packed_json_lines_that_the_manifest_describes(tmp_path):
    output = Output(tmp_path / "out")
    output.begin({})
    with output.publishing() as aside:
        entry = write_split(aside / "train.jsonl.gz", PAIRS, TEXTS)
    output.write_manifest({"files": [entry]})
    store = Store(tmp_path / "out")
    assert store.manifest == [entry]
    assert verify(store, entry) == []
    first, second = gzip.decompress(store.path(entry["path"]).read_bytes()).decode().splitlines()
    assert json.loads(first) == {
        "text1": "zwei ü\ttab", "text2": "one\n\nbody", "score": 1, "repository": "o/r",
        "number1": 2, "number2": 1,
    }  # fmt: skip
    assert json.loads(second)["score"] == 0
    assert (entry["rows"], entry["score_min_max"]) == (2, [0, 1])


def test_the_same_pairs_are_the_same_bytes(tmp_path):
    entries = [write_split(tmp_path / f"{name}.jsonl.gz", PAIRS, TEXTS) for name in ("a", "b")]
    assert entries[0]["sha256"] == entries[1]["sha256"]


def test_what_fails_half_way_publishes_nothing_and_is_cleared_away_the_next_time(tmp_path):
    output = Output(tmp_path)
    with contextlib.suppress(KeyboardInterrupt), output.publishing() as aside:
        (aside / "half").write_text("x")
        raise KeyboardInterrupt
    assert not output.folder.exists()
    assert output.provenance() is None
    with output.publishing() as aside:
        write_provenance(aside, {"schema": 1})
    assert [path.name for path in output.folder.iterdir()] == ["provenance.json"]
    assert output.provenance() == {"schema": 1}


def test_a_folder_takes_one_collection_alone(tmp_path):
    output = Output(tmp_path / "out")
    settings = {"seed": 1, "repositories": ["o/r"]}
    assert output.problem(settings) is None
    output.begin(settings)
    assert output.problem(dict(settings)) is None
    assert "with another seed; name a new folder" in (output.problem({**settings, "seed": 2}) or "")


def test_a_folder_of_other_files_is_not_written_to(tmp_path):
    (tmp_path / "thesis.tex").touch()
    assert "holds other files" in (Output(tmp_path).problem({}) or "")
    assert "is a file" in (Output(tmp_path / "thesis.tex").problem({}) or "")


def test_two_do_not_collect_into_one_folder(tmp_path):
    output = Output(tmp_path / "out")
    with output.held():
        assert output.problem({}) is None  # the lock is no file of others
        with (
            pytest.raises(EmbedrunError, match="in use by another embedrun collect") as caught,
            output.held(),
        ):
            pass
        assert caught.value.exit_code == 8


HOSTILE = ["", "{", "[" * 100_000, "\xff"]


@pytest.mark.parametrize("text", HOSTILE)
def test_damaged_settings_and_provenance_are_named(tmp_path, text):
    output = Output(tmp_path)
    output.begin({"a": 1})
    (tmp_path / "collect.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=r"collect.json: not the settings of a collection .* output=DIR"):
        output.problem({"a": 1})
    output.folder.mkdir()
    (output.folder / "provenance.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=r"provenance.json: not the provenance of a collection"):
        output.provenance()


@pytest.mark.parametrize("provenance", [{}, [], 5, {"splits": [], "length_unit": "a"}, {"splits": {"a": 1}}])
def test_a_provenance_without_its_counts_is_named(tmp_path, provenance):
    with pytest.raises(DataError, match="not the provenance of a collection"):
        table_in(Output(tmp_path), provenance)
