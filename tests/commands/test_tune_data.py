from dataclasses import replace
from pathlib import Path

import pytest

from embedrun.errors import DataError
from embedrun.study.tune.plan import TunePlan, marks, plan_tune

LR = "training.lr=loguniform(1e-4,1e-2)"


def plan(*overrides: str) -> TunePlan:
    return plan_tune(["experiment=quickstart", LR, *overrides], None, None)


def test_everything_that_is_missing_is_refused_together():
    with pytest.raises(DataError) as fault:
        marks(plan("dataset=choice(toy,stsb)", "backbone=bert_base", "backbone.name=choice(m/a,m/b)"))
    text = "\n".join(fault.value.problems)
    assert all(word in text for word in ("stsb", "m/a", "m/b"))
    assert len(fault.value.problems) == len(set(fault.value.problems)) == 3


def test_rows_of_each_choice_have_a_mark_and_other_rows_another():
    made = plan("dataset.train_rows=choice(48,64)")
    one, two = (marks(replace(made, ends=(end,))) for end in (made.ends[0], made.ends[-1]))
    both = marks(made)
    assert one["toy/dev"] == two["toy/dev"] == both["toy/dev"]
    assert one["toy/train"] != two["toy/train"]
    assert both["toy/train"] == sorted(one["toy/train"] + two["toy/train"])


def test_faulty_rows_are_refused():
    Path("train.csv").write_text("text1,text2,score\na,b,1\nc,d,high\n")
    with pytest.raises(DataError, match=r"train\.csv.*high"):
        marks(plan("dataset=pairs", "dataset.path=train.csv", "dataset.dev=train.csv"))
