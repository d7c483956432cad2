import re
from pathlib import Path

import pytest

from embedrun.errors import ConfigError
from embedrun.store import kind
from embedrun.store.catalogue import Catalogue

HEAD = "groups: {}\ndata_sets:\n  a:\n    about: x\n    licence: y\n    files:\n"


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "hub.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Catalogue.read(path)
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


def test_ours_has_the_row_counts_that_the_papers_evaluate_on():
    files = Catalogue.read().files
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


def test_ours_pins_whole_commits_and_maps_columns_that_there_are():
    catalogue = Catalogue.read()
    assert {name for members in catalogue.groups.values() for name in members} <= set(catalogue.data_sets)
    for path, file in catalogue.files.items():
        assert path.endswith((".tsv.gz", ".jsonl.gz", ".txt.gz"))
        if (hub := file.hub) is not None:
            assert hub.revision is None or re.fullmatch("[0-9a-f]{40}", hub.revision), path
            assert all(kind(Path(name)) is not None for name in hub.files), path
            assert (hub.columns == {"text": "text"}) == path.endswith(".txt.gz")
            assert {*hub.values, *hub.keep} <= set(hub.columns)
            assert not set(hub.constants) & set(hub.columns)
            assert not hub.blocks or set(hub.blocks) == set(file.subsets)


def test_a_mistyped_key_gets_the_nearest(tmp_path):
    (problem,) = problems(tmp_path, f"{HEAD}      a.jsonl.gz: {{row: 3}}\n")
    assert problem.endswith("a.jsonl.gz.row: unknown key; did you mean 'data_sets.a.files.a.jsonl.gz.rows'?")
