"""Scored pairs: their parts, and the data set that is made of them."""

import gzip
from pathlib import Path

import numpy as np

from embedrun.blocks import Shard
from embedrun.curation.annotate import Parts, merge
from embedrun.curation.teachers import settings_of
from embedrun.dataset.nli import by_label, grouped
from embedrun.rows import Rows

VECTORS = {"x": [1, 0], "y": [0, 1], "d\u00e9": [3, 4]}
ROWS = Rows(
    name="nli",
    split="train",
    form="pair",
    texts={"left": ["x", "x", "d\u00e9"], "right": ["y", "d\u00e9", "d\u00e9"]},
    targets={"label": np.array([2, 1, 0])},
)
SETTINGS = settings_of(ROWS, 1, [{"name": "stub"}])


def encode(texts: list[str]) -> np.ndarray:
    return np.array([VECTORS[text] for text in texts], np.float32)


def work(folder: Path, shard: str = "0/1") -> int:
    """What one process does: the number of blocks that it has scored."""
    parts = Parts(folder, ROWS, SETTINGS)
    folder.mkdir(exist_ok=True)
    scored = sum(parts.score(parts.missing(Shard.parse(shard)), [encode]))
    if not parts.missing():
        merge(parts)
    return scored


def rows(folder: Path) -> list[str]:
    return gzip.decompress((folder / "nli_scored.jsonl.gz").read_bytes()).decode().splitlines()


def test_the_merged_file_holds_the_rows_in_order_with_scores_by_hand(tmp_path):
    assert work(tmp_path) == 3
    assert rows(tmp_path) == [
        '{"text1": "x", "text2": "y", "label": 2, "score": 0.0, "score_1": 0.0}',
        '{"text1": "x", "text2": "d\u00e9", "label": 1, "score": 0.6, "score_1": 0.6}',
        '{"text1": "d\u00e9", "text2": "d\u00e9", "label": 0, "score": 1.0, "score_1": 1.0}',
    ]
    assert work(tmp_path) == 0


def test_the_number_of_shards_may_change_between_processes(tmp_path):
    work(tmp_path / "whole")
    assert [work(tmp_path / "shards", shard) for shard in ("1/2", "0/3", "0/1")] == [1, 1, 1]
    assert rows(tmp_path / "shards") == rows(tmp_path / "whole")


def test_mean_and_deciles_by_label():
    label = np.array([0] * 11 + [2])
    assert by_label(grouped(label, np.array([*range(11), 0.25]) / 10)) == {
        "entailment": {
            "pairs": 11,
            "mean": 0.5,
            "deciles": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
            "conflicts": {"contradiction": round(1 / 11, 6)},  # of eleven, 0.0 is below 0.025
        },
        "contradiction": {"pairs": 1, "mean": 0.025, "deciles": [0.025] * 9, "conflicts": {}},
    }


def test_parts_of_other_settings_do_not_count(tmp_path):
    work(tmp_path)
    other = settings_of(ROWS, 1, [{"name": "stub", "prompt": "query: "}])
    assert Parts(tmp_path, ROWS, other).missing() == [0, 1, 2]
