import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from embedrun.errors import ConfigError, DataError
from embedrun.table import load
from embedrun.table.cells import Runs, find_slots
from embedrun.table.rows import sheet_of
from embedrun.table.statistics import Source, counted

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def issues(store: Path, lengths: dict[str, list[int]] | None = None) -> None:
    """One positive and two negative pairs in each split; texts of so many words, by split."""
    (store / "github_issues").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        words = (lengths or {}).get(split, [3] * 6)
        pairs = zip(words[::2], words[1::2], (1, 0, 0), strict=True)
        rows = [
            {"text1": "bug " * left, "text2": "bug " * right, "score": score, "repository": "a/b"}
            for left, right, score in pairs
        ]
        with gzip.open(store / "github_issues" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def tokenizer(folder: Path) -> Path:
    """A tokenizer of one word a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"bug": 0, "?": 1}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    folder.mkdir(parents=True)
    made.save(str(folder / "tokenizer.json"))
    return folder


def provenance(store: Path, unit: str) -> None:
    split = {"positive": 10, "negative": 5, "long_texts": 33.0}
    (store / "github_issues").mkdir(parents=True, exist_ok=True)
    data = {"length_unit": unit, "splits": {name: split for name in ("train", "dev", "test")}}
    (store / "github_issues" / "provenance.json").write_text(json.dumps(data), encoding="utf-8")


def test_pairs_are_counted_in_the_rows_where_no_file_says_how_many(store: Path):
    issues(store)
    found = counted(load("angle/table1"), Source(store))
    assert found.numbers == {
        "splits": {name: {"positive": 1, "negative": 2} for name in ("train", "dev", "test")}
    }
    assert found.source == f"the rows of github_issues in {store}"


def test_the_file_of_the_command_counts_before_the_rows(store: Path):
    issues(store)
    provenance(store, "words")
    found = counted(load("angle/table1"), Source(store))
    table = load("angle/table1")
    sheet = sheet_of(table, [], counted=found)
    assert [entry.mean for entry in sheet.rows[2].entries] == [15, 15, 15]
    assert found.source == str(store / "github_issues" / "provenance.json")


def test_lengths_in_words_are_no_lengths_in_tokens(store: Path, tmp_path: Path):
    issues(store, {"train": [513, 512, 513, 1, 1, 1]})
    provenance(store, "words")
    table = load("angle/figure3")
    found = counted(table, Source(store, tokenizer(tmp_path / "bert"), tmp_path / "plots"))
    sheet = sheet_of(table, [], counted=found)
    # 2 of 6 texts have more than 512 tokens.
    assert [entry.mean for entry in sheet.rows[0].entries] == [33.33, 0, 0]
    assert (tmp_path / "plots" / "angle_figure3.png").is_file()


def test_lengths_that_were_counted_in_tokens_are_taken_from_the_file(store: Path):
    provenance(store, "tokens")
    assert counted(load("angle/figure3"), Source(store)).numbers["length_unit"] == "tokens"


def test_without_a_tokenizer_there_are_no_lengths_and_it_says_so(store: Path):
    issues(store)
    found = counted(load("angle/figure3"), Source(store))
    assert found.numbers == {}
    assert "--tokenizer DIR" in found.lacks


def test_a_folder_without_a_tokenizer_is_refused(store: Path, tmp_path: Path):
    issues(store)
    with pytest.raises(DataError, match=r"--tokenizer: no tokenizer.json"):
        counted(load("angle/figure3"), Source(store, tmp_path))


def scored(folder: Path) -> None:
    folder.mkdir(parents=True)
    labels = {0: [0.5, 1.0], 1: [0.0], 2: [-0.5]}
    rows = [
        {"text1": "a", "text2": "b", "label": label, "score": score}
        for label, scores in labels.items()
        for score in scores
    ]
    with gzip.open(folder / "nli_scored.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("inside", ["", "nli"])
def test_scores_are_counted_by_label_in_an_annotation_or_in_the_store(
    store: Path, tmp_path: Path, inside: str
):
    scored(store / inside)
    table = load("raoe/figure1")
    found = counted(table, Source(store, plots=tmp_path / "plots"))
    sheet = sheet_of(table, find_slots(table, Runs([]), lambda cell: None), counted=found)  # type: ignore[arg-type]
    assert [entry.mean for row in sheet.rows for entry in row.entries] == [2, 0.75, 1, 0, 1, -0.5, 4, None]
    assert (tmp_path / "plots" / "raoe_figure1.png").is_file()


def test_a_store_without_the_data_says_what_is_missing(store: Path):
    for name, file in (
        ("angle/table1", "github_issues/train.jsonl.gz"),
        ("raoe/figure1", "nli_scored.jsonl.gz"),
    ):
        found = counted(load(name), Source(store))
        assert found.lacks.startswith("No data to count: ")
        assert file in found.lacks


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_file_that_is_not_what_the_command_wrote_is_refused(store: Path, text: str):
    provenance(store, "words")
    (store / "github_issues" / "provenance.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"provenance.json"):
        counted(load("angle/table1"), Source(store))


def test_a_file_that_nothing_counts_is_refused_with_those_that_are(store: Path):
    table = load("angle/table1")
    assert table.statistics is not None
    other = replace(table, statistics=replace(table.statistics, file="github_issues/provenance.jsoon"))
    with pytest.raises(ConfigError, match=r"table/angle/table1.yaml: statistics.file: .*did you mean"):
        counted(other, Source(store))
