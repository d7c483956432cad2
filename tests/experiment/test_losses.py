"""The terms of a mix against the rows: what fits, what is idle, what is compared with what.

What the configuration says of the losses, held against the data and against the terms themselves.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from embedrun import family
from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.dataset.nli import conflicts, grouped
from embedrun.errors import ConfigError
from embedrun.experiment.losses import (
    Losses,
    acts_on,
    check_active,
    compared,
    contradiction,
    idle,
    papers,
    positives,
    tell_first_step,
)
from embedrun.experiment.plan import TrainPlan, plan_train
from embedrun.loss.angle import Angle
from embedrun.loss.arccon import Arccon
from embedrun.loss.cosent import Cosent
from embedrun.loss.gated_angular import GatedAngular
from embedrun.loss.in_batch_negatives import InBatchNegatives
from embedrun.loss.infonce import Infonce
from embedrun.loss.masked_triplet import MaskedTriplet
from embedrun.loss.mse import Mse
from embedrun.loss.rank_margin import RankMargin
from embedrun.loss.terms import given

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

QUICK = "+experiment=quickstart"


def plan(*overrides: str) -> TrainPlan:
    return plan_train(composed(Request(command="train", overrides=overrides)).config)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["loss=raoe", "training.batch_size=3"],
            "loss.terms.rank_margin: cannot work: ranks in a batch of 3 rows are at most 2 apart, never "
            "more than interval=2; raise training.batch_size above 3 or lower the interval",
        ),
        (
            ["loss=simcse_unsupervised"],
            "loss.terms.infonce: needs text, which dataset=toy does not give (it gives left, right, score, "
            "label); choose another loss or another dataset",
        ),
        (
            ["loss=mse_teacher"],
            "loss.terms.mse: learns from frozen encoders, and there is none; give training.teachers, such as "
            "'training.teachers=[{name: DIR}]'",
        ),
        (
            ["training.teachers=[{name: DIR}]"],
            "training.teachers: no loss learns from teachers; choose loss=mse_teacher, loss=mse_embeddings "
            "or loss=rankcse, or leave it null",
        ),
        (
            ["loss=raoe", "loss.terms.rank_margin.scale=0.05"],
            "loss.terms.rank_margin: RankMargin: scale multiplies the similarity and must be >= 1, got 0.05; "
            "a temperature of 0.05 is scale=20",
        ),
        (
            ["+loss.terms.cosent.views={lef: left}"],
            "loss.terms.cosent.views: no view 'lef' (it has: left, right, negative)",
        ),
        (
            ["loss=mse_teacher", "training.teachers=[{name: DIR, pooling: first_last_mean}]"],
            "training.teachers[0].first_layer: first_last_mean needs 0 (the embedding layer) or 1 (the first "
            "transformer layer), got None",
        ),
        (
            ["+loss.terms.cosent.views={right: left}"],
            "loss.terms.cosent.views: left and right are one pass of left, so their vectors are equal; "
            "give one of them another view or draw",
        ),
        (
            ["+loss.terms.keys={name: cosent}"],
            "loss.terms.keys: not a name for a term; give another key, with name: for the term",
        ),
        (
            ["training.micro_batch_size=4", "training.seeded_dropout=false"],
            "training.seeded_dropout: a batch encoded in parts needs it; leave it null, or micro_batch_size",
        ),
    ],
)
def test_a_mistake_is_named_before_anything_is_read(overrides: list[str], message: str):
    with pytest.raises(ConfigError) as caught:
        plan(QUICK, *overrides)
    assert message in caught.value.problems


TWO = (
    "dataset=triplets",
    "dataset.path=none.csv",
    "dataset.columns={anchor: q, positive: p, negative_1: a, negative_2: b}",
    "evaluation=none",
)


def test_several_negatives_of_a_row_are_passes_of_their_own():
    losses = plan(QUICK, *TWO, "loss=simcse_supervised").losses[""]
    assert list(losses.passes) == ["left", "right", "negative_1", "negative_2"]
    assert compared(losses, 8)["infonce"].startswith("23 negatives an anchor: 7 positives of other rows, 16 ")
    assert losses.idle(1) == []
    shorter = "+loss.terms.infonce.views={negative: {max_length: 8}}"
    losses = plan(QUICK, *TWO, "loss=simcse_supervised", shorter).losses[""]
    assert list(losses.passes) == ["left", "right", "negative_1[:8]", "negative_2[:8]"]
    without = plan(QUICK, *TWO, "loss=simcse_supervised", "+loss.terms.infonce.views={negative: null}")
    assert list(without.losses[""].passes) == ["left", "right"]


def of(term, **ways) -> Losses:
    return Losses(terms={"one": term}, ways={"one": ways}, passes={way.key: way for way in ways.values()})


def columns(label: list[int], score: list[float]) -> dict[str, np.ndarray]:
    return {"label": np.array(label), "score": np.array(score)}


@pytest.mark.parametrize(
    ("term", "given", "reason"),
    [
        (GatedAngular(), columns([2, 2], [0.1, 0.2]), "all training rows have the label 2"),
        (GatedAngular(), columns([0, 2], [0.5, 0.5]), "all scores of the training rows are equal"),
        (
            GatedAngular(),
            columns([0, 1, 2], [0.1, 0.5, 0.9]),
            "no two training rows have labels and scores that",
        ),
        (Infonce(), columns([0, 2], [0.9, 0.1]), "it takes every row for a positive, and some are labelled"),
        (InBatchNegatives(positive_from=1), columns([0, 1], [0.1, 0.9]), "no training row is a positive"),
        (RankMargin(interval=1), columns([0, 1], [0.1, 0.9]), "ranks in a batch of 2 rows"),
    ],
)
def test_rows_that_can_never_make_a_term_active_are_refused(term, given, reason: str):
    with pytest.raises(ConfigError, match=reason):
        check_active(of(term), 32, given, rows=2)


def test_labels_that_contradict_the_scores_are_named_with_their_means():
    swapped = columns([0, 0, 1, 2], [0.1, 0.2, 0.5, 0.9])
    warning = contradiction(of(GatedAngular()), swapped)
    assert warning is not None
    assert warning.startswith(
        "labels and scores contradict each other: the mean scores are entailment 0.15, neutral 0.5, "
        "contradiction 0.9"
    )


def test_conflicts_are_the_pairs_of_unequal_label_whose_scores_are_the_other_way_round():
    given = columns([0, 0, 1, 1, 2], [0.9, 0.4, 0.5, 0.4, 0.7])
    # Entailment 0.9 and 0.4 against neutral 0.5 and 0.4: one of four is wrong, one equal.
    wanted = {
        ("entailment", "neutral"): 1.5 / 4,
        ("entailment", "contradiction"): 1 / 2,
        ("neutral", "contradiction"): 1.0,
    }
    assert conflicts(grouped(given["label"], given["score"])) == pytest.approx(wanted)
    assert acts_on(of(GatedAngular()), given) == {
        "one": "scores order against labels: 37.5 % of entailment and neutral, 50.0 % of entailment "
        "and contradiction, 100.0 % of neutral and contradiction"
    }
    masked = acts_on(of(MaskedTriplet()), {"maskable": np.array([True, False, False, False])})
    assert masked == {"one": "1 of 4 rows (25.0 %) are long enough to be masked"}


def ratings(*counts: int) -> dict[str, np.ndarray]:
    """So many rows of the rating 1, of 2, and so on."""
    return {"score": np.repeat(np.arange(1.0, len(counts) + 1), counts)}


@pytest.mark.parametrize(
    ("counts", "positive_from", "said", "warning"),
    [
        ((400, 400, 400, 400, 400), 4, "800 of 2,000 rows (40.0 %) are positives (score >= 4)", None),
        (
            (400, 400, 400, 400, 400),
            1,
            "2,000 of 2,000 rows (100.0 %) are positives (score >= 1)",
            "loss.terms.one: takes 2,000 of 2,000 rows for positives, and 1,200 are rated 3, the middle of 1 "
            "to 5, or higher; pass loss.terms.one.positive_from=3 to take those",
        ),
        ((99, 1), 2, "1 of 100 rows (1.0 %) are positives (score >= 2)", None),  # no other bound would do
    ],
)
def test_rows_that_a_bound_makes_positives_are_counted(
    counts: tuple[int, ...], positive_from: float, said: str, warning: str | None
):
    losses = of(InBatchNegatives(positive_from=positive_from))
    found = positives(losses, ratings(*counts), sum(counts))
    assert found == ({"one": said}, [warning] if warning else [])


OWN = (QUICK, "dataset=pairs", "dataset.path=x.csv", "evaluation=none", "loss=angle")
BOUND = "loss.terms.in_batch_negatives.positive_from"


@pytest.mark.parametrize(
    ("score", "asked"),
    [
        (
            [1.0, 2.0, 3.0, 4.0, 5.0],
            "scores from 1 to 5; pass 'dataset.score_range=[1,5]', which makes the upper quarter of that "
            f"scale positives, or {BOUND}=4, the lowest score of a positive pair",
        ),
    ],
)
def test_which_pairs_are_positives_is_asked_on_a_scale_of_the_users_own(score: list[float], asked: str):
    with pytest.raises(ConfigError) as caught:
        check_active(plan(*OWN).losses[""], 32, {"score": np.array(score)}, rows=len(score))
    (problem,) = caught.value.problems
    assert problem.startswith(f"{BOUND}: which pairs are positives is not known: the training rows have ")
    assert asked in problem


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["dataset.score_range=[1,5]"],
            "2 of 5 rows (40.0 %) are positives (score >= 4)",
        ),
        ([f"{BOUND}=2"], "4 of 5 rows (80.0 %) are positives (score >= 2)"),
    ],
)
def test_a_scale_or_a_bound_is_an_answer(overrides: list[str], said: str):
    losses, rows = plan(*OWN, *overrides).losses[""], ratings(1, 1, 1, 1, 1)
    check_active(losses, 32, rows, rows=5)
    assert positives(losses, rows, 5)[0] == {"in_batch_negatives": said}


PAPERS = {
    "cosent": ["AnglE", "CoSENT"],
    "in_batch_negatives": ["AnglE"],
    "angle": ["AnglE"],
    "infonce": ["SimCSE"],
    "softmax_nli": ["SBERT"],
    "kl": ["distillation"],
    "mlm": ["BERT", "SimCSE"],
    "margin_mse": ["MarginMSE"],
    "supcon": ["SupCon"],
    "rank_consistency": ["RankCSE"],
    "rank_distillation": ["RankCSE"],
    "arccon": ["ArcCSE"],
    "masked_triplet": ["ArcCSE"],
    "rank_margin": ["RAOE"],
    "gated_angular": ["RAOE"],
    "mse": ["SBERT", "RAOE"],
    "mse_embeddings": ["RAOE", "FitNets"],
}


def test_every_term_has_its_papers_in_bibtex():
    own = [
        name for name in family.names("loss") if family.find("loss", name).__module__.startswith("embedrun")
    ]
    assert sorted(own) == sorted(PAPERS)
    for name, keys in PAPERS.items():
        cls = family.find("loss", name)
        entries = papers(of(cls(**given(cls, {"dim": 2, "teacher_dims": (2,)}))))
        assert [re.match(r"@\w+\{(\w+),", entry)[1] for entry in entries] == keys, name
        for entry in entries:
            assert all(re.search(rf"^  {field} = \{{.+\}},$", entry, re.M) for field in ("author", "title"))
            assert re.search(r"^  year = \{20\d\d\},$", entry, re.M)
            assert re.search(r"^  (url|doi|eprint) = ", entry, re.M)
            assert entry.count("{") == entry.count("}")


def said(term, rows: int, *views: str) -> str:
    ways = {name: SimpleNamespace(key=name) for name in views}
    return compared(Losses({"it": term}, {"it": ways}, dict(ways)), rows)["it"]


@pytest.mark.parametrize(
    ("term", "views", "start"),
    [
        (Infonce(), ("left", "right"), "7 negatives an anchor"),
        (
            Infonce(),
            ("left", "right", "negative"),
            "15 negatives an anchor: 7 positives of other rows, 8 hard",
        ),
        (InBatchNegatives(), ("left", "right"), "14 negatives"),  # 16 texts without itself and its partner
        (InBatchNegatives(sides="one"), ("left", "right"), "7 negatives"),
        (Arccon(), ("text", "text_again"), "7 negatives an anchor: the second vectors"),
        (Arccon(negatives="both"), ("text", "text_again"), "14 negatives"),
        (Cosent(), (), "up to 28 pairs of rows, those of unequal score"),
        (RankMargin(interval=2), (), "up to 15 pairs of rows, those more than 2 ranks apart"),  # 5+4+3+2+1
        (MaskedTriplet(), (), "a triplet a row"),
        (Mse(), (), "each row by itself, no negatives"),
        (SimpleNamespace(), (), "whatever it does with 8 rows"),
    ],
)
def test_what_a_batch_of_eight_gives_a_term_to_compare(term, views, start):
    assert said(term, 8, *views).startswith(start)


@pytest.mark.parametrize("name", family.names("loss"))
def test_every_term_of_ours_says_what_it_compares(name: str):
    assert hasattr(family.find("loss", name), "compared")


def lines(name: str, *values: float, split: str = "train") -> list[dict]:
    return [{"name": name, "split": split, "value": value, "step": step} for step, value in enumerate(values)]


def test_a_term_that_was_zero_at_every_logged_step_is_said():
    metrics = [
        *lines("loss/arccon", 3.1, 0.0, 2.9),
        *lines("loss/masked_triplet", 0.0, 0.0, 0.0),
        *lines("violated/masked_triplet", 0.0, 0.0, 0.0),
        *lines("loss", 0.0, 0.0, 0.0),
        *lines("loss/of_two_steps", 0.0, 0.0),
        *lines("loss/late", 0.0, 0.0, float("nan")),
        *lines("loss/elsewhere", 0.0, 0.0, 0.0, split="dev"),
    ]
    (warning,) = idle(metrics)
    assert warning.startswith("loss.terms.masked_triplet: its loss was 0 at all 3 steps that were logged")


def told(capsys, losses: Losses, values: dict[str, float]) -> list[str]:
    tell_first_step({"": losses}, values)
    return capsys.readouterr().err.splitlines()


def test_the_first_step_says_what_share_of_the_gradient_each_term_has(capsys):
    losses = Losses({"cosent": Cosent(), "angle": Angle(), "raoe": RankMargin()})
    values = {"gradient_share/cosent": 0.962, "gradient_share/angle": 0.0301, "gradient_share/raoe": 0.0079}
    assert told(capsys, losses, values) == [
        "gradient at the first step: cosent 96 %, angle 3 %, raoe under 1 %",
        "warning: loss.terms.raoe: under 1 % of the gradient at the first step, as if the mix were without "
        "it; raise loss.terms.raoe.weight, or leave the term out",
    ]
    assert told(capsys, of(Angle()), {}) == []
