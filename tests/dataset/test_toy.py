import pytest

from embedrun.dataset.toy import (
    ACTIONS,
    BROADER_OF,
    CONTRADICTION,
    ENTAILMENT,
    NEUTRAL,
    ONE,
    OPPOSITES,
    SLOTS,
    TOOLS,
    Scene,
    Statement,
    Toy,
    label,
    score,
)


def meaning(entry: str) -> str:
    """The meaning that is said so in the first of both ways."""
    exact = (
        *BROADER_OF,
        *BROADER_OF.values(),
        *ACTIONS,
        *(tool for tools in TOOLS.values() for tool in tools),
    )
    return next(value for value in exact if value.partition(", ")[0].partition("/")[0] == entry)


def scene(*values: str) -> dict:
    return {**dict.fromkeys(SLOTS), **dict(zip(SLOTS, values, strict=False))}


def replace(scene: Scene, **values: str | None) -> dict:
    return {**scene, **values}


def said(scene: Scene, ways: int = 0, *, passive: bool = False, time_first: bool = False) -> Statement:
    """The scene with every slot said in one of both ways."""
    return Statement(scene, (ways,) * len(SLOTS), passive=passive, time_first=time_first)


ATTACK = scene(meaning("dog"), ONE, meaning("attacked"), meaning("lawyer"), meaning("two"))  # weight 24
SWAPPED = replace(ATTACK, agent=ATTACK["patient"], patient=ATTACK["agent"])
FULL = replace(
    ATTACK, tool=meaning("stick"), place=meaning("in the forest"), time=meaning("at noon")
)  # weight 30


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (said(ATTACK, passive=True), 5.0),
        (said(ATTACK, 1), 4.76),  # 5 (23 x 0.95 + 1) / 24; "two" is said in one way
        (said(replace(ATTACK, agent=meaning("animal"))), 4.17),  # 5 (16 + 8 x 0.5) / 24
        (said(replace(ATTACK, action=OPPOSITES[ATTACK["action"]])), 3.75),  # 5 x 18 / 24
        (said(SWAPPED), 1.67),  # 5 x 8 / 24
        (said(SWAPPED, passive=True), 1.67),
        (said(replace(SWAPPED, agent_count=meaning("two"), patient_count=ONE)), 1.25),  # 5 x 6 / 24
        (said(FULL), 4.0),  # 5 x 24 / 30
        (said(scene(meaning("pirate"), meaning("ten"), meaning("led"), meaning("boy"), meaning("ten"))), 0.0),
    ],
)
def test_the_score_is_the_weighted_share_of_agreeing_slots(other: Statement, expected: float):
    assert score(said(ATTACK), other) == expected
    assert score(other, said(ATTACK)) == expected


@pytest.mark.parametrize(
    ("premise", "hypothesis", "expected"),
    [
        (ATTACK, ATTACK, ENTAILMENT),
        (ATTACK, replace(ATTACK, agent=meaning("animal"), patient_count=meaning("some")), ENTAILMENT),
        (FULL, ATTACK, ENTAILMENT),
        (FULL, replace(FULL, place=meaning("in the countryside")), ENTAILMENT),
        (ATTACK, FULL, NEUTRAL),
        (replace(ATTACK, agent=meaning("animal")), ATTACK, NEUTRAL),
        (FULL, replace(ATTACK, agent=meaning("animal"), action=OPPOSITES[ATTACK["action"]]), CONTRADICTION),
        (ATTACK, SWAPPED, CONTRADICTION),
        (ATTACK, replace(ATTACK, patient_count=ONE), CONTRADICTION),
        (ATTACK, replace(ATTACK, agent=meaning("worker")), CONTRADICTION),
    ],
)
def test_the_label_follows_from_the_slots(premise: Scene, hypothesis: Scene, expected: int):
    assert label(premise, hypothesis) == expected


def test_the_first_pairs_are_the_same_in_every_process():
    # Written down once; the order of sets and dicts of objects differs from process to process.
    small = Toy(train_rows=1, dev_rows=1, test_rows=1)
    drawn = {split: small.read(split) for split in Toy.splits}
    assert {split: (*(column[0] for column in pairs.texts.values()),) for split, pairs in drawn.items()} == {
        "train": ("Ten lads tugged a doctor.", "Ten boys tugged a doctor."),
        "dev": ("Three fathers released three boys.", "Three relatives freed some youngsters."),
        "test": (
            "Two girls freed two attorneys in the jail.",
            "Two lasses caught two attorneys on the shore.",
        ),
    }
    # By hand: 5 (24 - 8 x 0.05) / 24; 5 (4 + 1 + 6 x 0.95 + 4 + 0.5) / 24; 5 (8 x 0.95 + 1 + 8 + 1) / 26.
    assert [drawn[split].targets["score"][0] for split in Toy.splits] == [4.92, 3.17, 3.38]
    assert [drawn[split].targets["label"][0] for split in Toy.splits] == [0, 0, 2]


@pytest.mark.parametrize(("form", "rows"), [("pair", "13114dd439764658"), ("triplet", "80eb0bfc27967dd8")])
def test_the_rows_are_those_of_every_version(form, rows):
    made = Toy(form=form, train_rows=200, dev_rows=1, test_rows=1).read("train")
    assert made.fingerprint().startswith(rows)


@pytest.mark.parametrize("form", ["pair", "triplet"])
def test_no_text_is_in_two_splits(form):
    toy = Toy(form=form, train_rows=2000, dev_rows=200, test_rows=400)
    texts = [set(toy.read(split).sentences()) for split in Toy.splits]
    assert sum(map(len, texts)) == len(set.union(*texts)) > 4000
