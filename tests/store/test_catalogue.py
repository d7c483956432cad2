from pathlib import Path

import pytest

from embedrun.errors import ConfigError
from embedrun.store.catalogue import Catalogue

HEAD = "groups: {}\ndata_sets:\n  a:\n    about: x\n    licence: y\n    files:\n"
HUB = "{repo: o/a, files: [a.parquet], columns: {text: t}"


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "hub.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Catalogue.read(path)
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


def test_ours_has_the_row_counts_that_the_papers_evaluate_on():
    files = Catalogue.read().files()
    counts = {
        "sts/sts12.tsv.gz": 3108,
        "sts/sts13.tsv.gz": 1500,
        "sts/sts14.tsv.gz": 3750,
        "sts/sts15.tsv.gz": 3000,
        "sts/sts16.tsv.gz": 1186,
        "stsb/train.tsv.gz": 5749,
        "stsb/dev.tsv.gz": 1500,
        "stsb/test.tsv.gz": 1379,
        "sickr/test.tsv.gz": 4927,
        "senteval/mr/train.jsonl.gz": 5331 + 5331,
        "senteval/cr/train.jsonl.gz": 2407 + 1368,
        "senteval/subj/train.jsonl.gz": 5000 + 5000,
        "senteval/mpqa/train.jsonl.gz": 3312 + 7294,
        "senteval/sst2/train.jsonl.gz": 67349,
        "senteval/trec/train.jsonl.gz": 5452,
        "senteval/trec/test.jsonl.gz": 500,
        "senteval/mrpc/train.jsonl.gz": 4076,
        "senteval/mrpc/test.jsonl.gz": 1725,
        "senteval/mrpc/mrpc_dev.jsonl.gz": 408,  # of the 4,076
    }
    assert {path: files[path].rows for path in counts} == counts


def test_counts_by_value_add_up_to_the_rows():
    for path, file in Catalogue.read().files().items():
        for counts in (file.labels, file.subsets, file.entailment):
            assert counts is None or sum(counts.values()) == file.rows, path


def test_a_pinned_revision_is_a_whole_commit(tmp_path):
    for revision in ("main", "0123abc", "0" * 39, "G" * 40):
        text = f"{HEAD}      a.jsonl.gz: {{hub: {HUB}, revision: '{revision}'}}}}\n"
        (problem,) = problems(tmp_path, text)
        assert problem == (
            "data_sets.a.files.a.jsonl.gz.hub.revision: expected a commit of 40 hexadecimal digits or null, "
            f"got {revision!r}"
        )


def test_all_faults_are_told_together(tmp_path):
    text = (
        "groups: {both: [a, bb]}\n"
        + HEAD.partition("\n")[2]
        + "      ../a.jsonl.gz: {}\n"
        + "      a.csv: {}\n"
        + "      b.jsonl.gz: {hub: {repo: o/a, files: [a.bin], columns: {text: t}, keep: {txt: [1]}}}\n"
        + "      c.txt.gz: {hub: {repo: o/a, files: [a.txt], columns: {text: t}, constants: {text: x}}}\n"
        + "      d.jsonl.gz: {hub: {repo: o/a, files: [a.txt]}}\n"
        + "      e.jsonl.gz: {hub: {repo: o/a, files: [], columns: {text: t}}}\n"
    )
    found = problems(tmp_path, text)
    assert [problem.removeprefix("data_sets.a.files.") for problem in found] == [
        "groups.both: no data set 'bb'",
        "../a.jsonl.gz: a path inside the store that ends in .tsv.gz, .jsonl.gz, .txt.gz",
        "a.csv: a path inside the store that ends in .tsv.gz, .jsonl.gz, .txt.gz",
        "b.jsonl.gz.hub.files: 'a.bin' is not Parquet, JSON Lines, CSV, TSV or plain text",
        "b.jsonl.gz.hub.keep: no column 'txt'; did you mean 'text'?",
        "c.txt.gz.hub.columns: a table needs them, plain text has none",
        "c.txt.gz.hub.constants: 'text' is a column too",
        "d.jsonl.gz.hub.files: 'a.txt' cannot become d.jsonl.gz; plain text goes with plain text",
        "d.jsonl.gz.hub.columns: a table needs them, plain text has none",
        "e.jsonl.gz.hub.files: name at least one file of the repository",
    ]


def test_a_mistyped_key_gets_the_nearest(tmp_path):
    (problem,) = problems(tmp_path, f"{HEAD}      a.jsonl.gz: {{row: 3}}\n")
    assert problem.endswith("a.jsonl.gz.row: unknown key; did you mean 'data_sets.a.files.a.jsonl.gz.rows'?")


@pytest.mark.parametrize("text", ["groups: [", "- 1\n", ""])
def test_what_is_no_catalogue_is_refused(tmp_path, text):
    assert problems(tmp_path, text)


def test_a_file_knows_its_data_set_and_groups(catalogue):
    assert catalogue.names_of("sts/a.tsv.gz") == {"sts", "all"}
    assert catalogue.names_of("sts/b.tsv.gz") == set()
