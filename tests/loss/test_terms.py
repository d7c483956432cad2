"""What a term needs, and options that no term can take."""

from typing import ClassVar

import pytest
from torch import Tensor, nn

from embedrun.loss.angle import Angle
from embedrun.loss.in_batch_negatives import InBatchNegatives
from embedrun.loss.infonce import Infonce
from embedrun.loss.rank_margin import RankMargin
from embedrun.loss.terms import (
    Needs,
    Pass,
    needs,
    passes,
    with_negatives,
)


class Outside(nn.Module):
    passes: ClassVar = {"text": Pass("text", draw=2)}

    def __init__(self, *, scale: float = 1.0, dim: int) -> None:
        super().__init__()

    def forward(
        self,
        text: Tensor,
        teacher: Tensor,
        negative: Tensor | None = None,
        label: Tensor | None = None,
    ) -> Tensor:
        raise AssertionError("only its signature is read")


class Demanding(Outside):
    requires: ClassVar = ("label", "negative")


def test_needs_are_read_from_the_signature_of_forward():
    assert needs(RankMargin) == Needs(["left", "right"], ["score"], [], [])
    # A term reads neither what it does not use.
    assert needs(Infonce()).optional_targets == ["hard_negatives"]
    identities = ["left_identity", "right_identity"]
    assert needs(InBatchNegatives()) == Needs(["left", "right"], ["score"], [], [*identities, "label"])
    assert needs(Outside) == Needs(["text"], ["teacher"], ["negative"], ["label"])
    # What a term requires is not optional.
    assert needs(Demanding) == Needs(["text", "negative"], ["teacher", "label"], [], [])

    assert needs(Angle()) == needs(Angle)


def test_change_keeps_what_it_does_not_name():
    changes = {"text": {"max_length": 16}, "negative": "right"}
    assert passes(Outside, changes) == {
        "text": Pass("text", draw=2, max_length=16),
        "negative": Pass("right"),
    }


def test_optional_view_can_be_left_out_and_a_necessary_one_cannot():
    assert list(passes(Outside, {"negative": None})) == ["text"]
    with pytest.raises(ValueError, match=r"views\.text: expected a view or a mapping of .*; got None"):
        passes(Outside, {"text": None})
    with pytest.raises(ValueError, match=r"views\.negative: expected a view or a mapping"):
        passes(Demanding, {"negative": None})


def test_all_faults_of_a_change_are_said_together_with_what_is_accepted():
    changes = {"right": "text", "text": {"draw": -1, "seed": 0, "dropout": 0}, "negative": 5}
    with pytest.raises(ValueError, match="no view") as caught:
        passes(Outside, changes)
    assert str(caught.value).splitlines() == [
        "views: no view 'right' (it has: text, negative)",
        "views.text.seed: unknown key",
        "views.text.draw: must be at least 0, got -1",
        "views.text.dropout: expected true or false, got 0",
        "views.negative: expected a view or a mapping of its options; got 5",
    ]
    with pytest.raises(ValueError, match=r"views.text.view: expected one of left, .* and so on; got 'label'"):
        passes(Outside, {"text": "label"})


class Several(nn.Module):
    def forward(self, left: Tensor, negative: Tensor | None = None, **negatives: Tensor) -> Tensor:
        raise AssertionError("only its signature is read")


def test_each_numbered_negative_goes_through_the_encoder_as_the_one_would():
    shorter = {"max_length": 8, "dropout": False}
    ways = with_negatives(Several, passes(Several, {"negative": shorter}), 2)
    assert ways == {
        "left": Pass("left"),
        "negative_1": Pass("negative_1", max_length=8, dropout=False),
        "negative_2": Pass("negative_2", max_length=8, dropout=False),
    }
    assert with_negatives(Several, passes(Several), 0) == passes(Several)


def test_a_term_of_one_negative_takes_the_first_alone_and_refuses_more():
    first = {"text": Pass("text", draw=2), "negative": Pass("negative_1")}
    assert with_negatives(Outside, passes(Outside), 1) == first
    chosen = passes(Outside, {"negative": "negative_3"})
    assert with_negatives(Outside, chosen, 3)["negative"] == Pass("negative_3")
    with pytest.raises(ValueError, match="takes one hard negative of a row, and the rows have 3"):
        with_negatives(Outside, passes(Outside), 3)
