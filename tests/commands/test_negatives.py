from types import SimpleNamespace

import pytest

from embedrun.experiment.losses import Losses, compared
from embedrun.loss.angle import Angle
from embedrun.loss.arccon import Arccon
from embedrun.loss.cosent import Cosent
from embedrun.loss.gated_angular import GatedAngular
from embedrun.loss.in_batch_negatives import InBatchNegatives
from embedrun.loss.infonce import Infonce
from embedrun.loss.masked_triplet import MaskedTriplet
from embedrun.loss.mse import Mse
from embedrun.loss.rank_margin import RankMargin


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
        (Angle(), (), "up to 28 pairs"),
        (RankMargin(interval=2), (), "up to 15 pairs of rows, those more than 2 ranks apart"),  # 5+4+3+2+1
        (RankMargin(interval=0), (), "up to 28 pairs"),
        (GatedAngular(gate="label"), (), "up to 28 pairs of rows, those of unequal label"),
        (MaskedTriplet(), (), "a triplet a row"),
        (Mse(), (), "each row by itself, no negatives"),
        (SimpleNamespace(), (), "whatever it does with 8 rows"),
    ],
)
def test_what_a_batch_of_eight_gives_a_term_to_compare(term, views, start):
    assert said(term, 8, *views).startswith(start)


def test_what_is_said_of_negatives_is_what_the_term_counts():
    torch = pytest.importorskip("torch")
    left, right, negative = torch.eye(8), torch.eye(8), torch.eye(8)
    candidates = Infonce()._similarities(left, right, negative).shape[1]
    assert said(Infonce(), 8, "left", "right", "negative").startswith(f"{candidates - 1} ")
    target, excluded = InBatchNegatives(identical_texts="off")._targets(torch.ones(8), None, None)
    per_row = (~excluded).sum(dim=1) - (target > 0).sum(dim=1)
    assert set(per_row.tolist()) == {14}


def test_no_class_of_a_term_is_without_a_rule():
    from embedrun import family
    from embedrun.experiment.losses import _RULES

    assert {family.find("loss", name).__name__ for name in family.names("loss")} == set(_RULES)
