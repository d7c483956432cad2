import json

from embedrun.experiment.data import skip_warning, skipped_in, write_skipped
from embedrun.rows import Rows, Skipped

BAD = Skipped("a.tsv", 3, "score", "expected a number, got '\u202ex'")
SHORT = Skipped("a.tsv", 7, "", "blank line")


def rows(*skipped: Skipped) -> Rows:
    return Rows("texts", "dev", "text", {"text": ["a"]}, skipped=skipped)


def test_a_split_that_two_tasks_score_is_listed_once():
    assert skipped_in([rows(BAD), rows(), rows(SHORT), rows(BAD)]) == [BAD, SHORT]


def test_the_list_has_a_line_a_row_and_no_control_character(tmp_path):
    write_skipped([BAD, SHORT], tmp_path)
    text = (tmp_path / "skipped_rows.jsonl").read_text(encoding="utf-8")
    assert "\u202e" not in text
    assert [json.loads(line) for line in text.splitlines()] == [
        {"file": "a.tsv", "line": 3, "column": "score", "reason": "expected a number, got '\u202ex'"},
        {"file": "a.tsv", "line": 7, "column": None, "reason": "blank line"},
    ]


def test_nothing_skipped_leaves_no_file_and_no_warning(tmp_path):
    write_skipped([], tmp_path)
    assert not (tmp_path / "skipped_rows.jsonl").exists()
    assert skip_warning([]) is None


def test_the_warning_counts_and_shows_the_first():
    assert skip_warning([SHORT, BAD]) == (
        "2 faulty rows of your files skipped, the first: a.tsv, line 7: blank line; see skipped_rows.jsonl"
    )
    assert skip_warning([Skipped("a.parquet", 1, "score", "no number")]) == (
        "1 faulty row of your files skipped, the first: a.parquet, row 1, score: no number; "
        "see skipped_rows.jsonl"
    )
