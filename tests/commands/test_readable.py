from pathlib import Path

from embedrun.dataset.named import unreadable
from embedrun.dataset.pairs import Pairs
from embedrun.dataset.sts import Sts
from embedrun.dataset.stsb import Stsb
from embedrun.dataset.toy import Toy
from embedrun.store import Store


def test_all_missing_files_of_the_store_are_one_problem_and_each_is_named_once(tmp_path):
    splits = [(Stsb(), "dev"), (Sts(year=12), "test"), (Stsb(), "dev"), (Toy(), "train")]
    (problem,) = unreadable(splits, Store(tmp_path))
    assert problem.startswith("stsb/dev.tsv.gz, sts/sts12.tsv.gz: not in the data folder")


def test_other_problems_come_first_and_toy_has_none(tmp_path):
    problems = unreadable([(Stsb(), "dev"), (Pairs(path="no.csv"), "train")], Store(tmp_path))
    assert len(problems) == 2
    assert "no.csv" in problems[0]
    assert unreadable([(Toy(), "test")], Store(Path("nowhere"))) == []
