import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from embedrun.curation.annotation.output import Parts, annotate_blocks, finish, finished, merge
from embedrun.curation.annotation.teachers import Settings
from embedrun.dataset.nli_scored import Merged, by_label
from embedrun.errors import ConfigError, DataError
from embedrun.rows import Rows

VECTORS = {"x": [1, 0], "y": [0, 1], "d\u00e9": [3, 4]}
ROWS = Rows(
    name="nli",
    split="train",
    form="pair",
    texts={"left": ["x", "x", "d\u00e9"], "right": ["y", "d\u00e9", "d\u00e9"]},
    targets={"label": np.array([2, 1, 0])},
)
SETTINGS = Settings.of(ROWS, 2, [{"name": "stub"}])


def encode(texts: list[str]) -> np.ndarray:
    return np.array([VECTORS[text] for text in texts], np.float32)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    """Both blocks done."""
    parts = Parts(tmp_path / "parts", SETTINGS)
    assert list(annotate_blocks(ROWS, parts, [0, 1], [encode])) == [2, 1]
    return parts


@pytest.fixture
def output(parts: Parts, tmp_path: Path) -> Path:
    finish(tmp_path, SETTINGS, merge(parts, tmp_path))
    (tmp_path / "scores_by_label.png").write_bytes(b"drawn elsewhere")
    return tmp_path


def test_the_merged_file_holds_the_rows_in_order_with_scores_by_hand(output):
    lines = gzip.decompress((output / "nli_scored.jsonl.gz").read_bytes()).decode().splitlines()
    assert lines == [
        '{"text1": "x", "text2": "y", "label": 2, "score": 0.0, "score_1": 0.0}',
        '{"text1": "x", "text2": "d\u00e9", "label": 1, "score": 0.6, "score_1": 0.6}',
        '{"text1": "d\u00e9", "text2": "d\u00e9", "label": 0, "score": 1.0, "score_1": 1.0}',
    ]


def test_the_gzip_header_holds_no_time_and_no_name(output):
    header = (output / "nli_scored.jsonl.gz").read_bytes()[:10]
    assert header[3] == 0  # no flag: no name
    assert header[4:8] == b"\0\0\0\0"


def test_the_provenance_says_what_was_made_from_what(output):
    says = json.loads((output / "provenance.json").read_text(encoding="utf-8"))
    assert says["teachers"] == [{"name": "stub"}]
    assert says["rows"] == {"name": "nli", "split": "train", "count": 3, "sha256": ROWS.fingerprint()}
    assert says["labels"] == {"entailment": 1, "neutral": 1, "contradiction": 1}
    packed = (output / "nli_scored.jsonl.gz").read_bytes()
    assert says["file"] == {
        "path": "nli_scored.jsonl.gz",
        "rows": 3,
        "sha256": hashlib.sha256(packed).hexdigest(),
    }


def test_mean_and_deciles_by_label():
    label = np.array([0] * 11 + [2])
    merged = Merged(label, np.array([*range(11), 0.25]) / 10)
    assert by_label(merged.groups()) == {
        "entailment": {"pairs": 11, "mean": 0.5, "deciles": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]},
        "contradiction": {"pairs": 1, "mean": 0.025, "deciles": [0.025] * 9},
    }


def test_a_whole_annotation_is_known_without_its_parts(output):
    assert finished(output, SETTINGS)
    for path in (output / "parts").iterdir():
        path.unlink()
    assert finished(output, SETTINGS)


@pytest.mark.parametrize("file", ["nli_scored.jsonl.gz", "scores_by_label.json", "scores_by_label.png"])
def test_an_annotation_that_lacks_a_file_is_not_whole(output, file):
    (output / file).unlink()
    assert not finished(output, SETTINGS)


def test_an_annotation_with_a_changed_file_is_not_whole(output):
    path = output / "nli_scored.jsonl.gz"
    path.write_bytes(path.read_bytes() + b"\0")
    assert not finished(output, SETTINGS)


def test_an_empty_folder_holds_no_annotation(tmp_path):
    assert not finished(tmp_path, SETTINGS)
    assert not finished(tmp_path / "nowhere", SETTINGS)


def test_another_annotation_is_never_overwritten(output):
    other = Settings.of(ROWS, 2, [{"name": "stub", "prompt": "query: "}])
    with pytest.raises(
        ConfigError, match=r"holds an annotation made with other teachers \(name='stub'; this command"
    ):
        finished(output, other)


@pytest.mark.parametrize("text", ["{}", "[]", '{"schema": 2}'])
def test_a_provenance_of_another_kind_is_refused(output, text):
    (output / "provenance.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="made by another version of embedrun"):
        finished(output, SETTINGS)


def test_a_provenance_that_is_not_json_is_refused(output):
    (output / "provenance.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        finished(output, SETTINGS)


def test_nothing_is_merged_while_a_part_is_missing(parts, tmp_path):
    parts.path(1).unlink()
    with pytest.raises(DataError, match=r"part-00001.parquet: cannot be read"):
        merge(parts, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]
