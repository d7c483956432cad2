"""What a term needs, and options that no term can take."""

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor, nn

from embedrun.loss.angle import Angle
from embedrun.loss.in_batch_negatives import InBatchNegatives
from embedrun.loss.masked_triplet import MaskedTriplet
from embedrun.loss.terms import (
    Needs,
    Pass,
    given,
    needs,
    nothing_to_order,
    parameters_of,
    passes,
    require_choice,
    require_positive,
    require_scale,
    require_shape,
    source,
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
    assert needs(Angle) == Needs(["left", "right"], ["score"], [], [])
    identities = ["left_identity", "right_identity"]
    assert needs(InBatchNegatives()) == Needs(["left", "right"], ["score"], [], [*identities, "label"])
    assert needs(Outside) == Needs(["text"], ["teacher"], ["negative"], ["label"])


def test_what_a_term_requires_is_not_optional():
    assert needs(Demanding) == Needs(["text", "negative"], ["teacher", "label"], [], [])


def test_term_and_its_class_need_the_same():
    assert needs(Angle()) == needs(Angle)


def test_parameters_are_those_after_self():
    assert list(parameters_of(Outside, "forward")) == ["text", "teacher", "negative", "label"]
    assert list(parameters_of(Angle(), "idle")) == ["rows", "score"]


def test_constructor_is_given_only_what_it_asks_for():
    values = {"dim": 8, "teacher_dims": (3,)}
    assert given(Outside, values) == {"dim": 8}
    assert given(Angle, values) == {}


@pytest.mark.parametrize(
    ("way", "key"),
    [
        (Pass("left"), "left"),
        (Pass("left", draw=1), "left#1"),
        (Pass("left", dropout=False), "left-dropout"),
        (Pass("left", max_length=32), "left[:32]"),
        (Pass("left", draw=3, max_length=32), "left#3[:32]"),
    ],
)
def test_key_names_what_is_unusual_about_a_pass(way: Pass, key: str):
    assert way.key == key


def test_without_dropout_every_draw_is_the_same_pass():
    assert Pass("text", draw=4, dropout=False) == Pass("text", dropout=False)
    assert Pass("text", draw=4) != Pass("text")


def test_views_go_through_as_the_term_says_and_else_as_they_are():
    assert passes(Angle) == {"left": Pass("left"), "right": Pass("right")}
    assert passes(Outside) == {"text": Pass("text", draw=2), "negative": Pass("negative")}


def test_change_keeps_what_it_does_not_name():
    changes = {"text": {"max_length": 16}, "negative": "right"}
    assert passes(Outside, changes) == {
        "text": Pass("text", draw=2, max_length=16),
        "negative": Pass("right"),
    }


def test_two_passes_of_one_view_take_the_place_of_two_views():
    ways = passes(Angle, {"left": "text", "right": {"view": "text", "draw": 1}})
    assert [way.key for way in ways.values()] == ["text", "text#1"]


def test_optional_view_can_be_left_out_and_a_necessary_one_cannot():
    assert list(passes(Outside, {"negative": None})) == ["text"]
    with pytest.raises(ValueError, match=r"views\.text: expected a view or a mapping of .*; got None"):
        passes(Outside, {"text": None})
    with pytest.raises(ValueError, match=r"views\.negative: expected a view or a mapping"):
        passes(Demanding, {"negative": None})


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"right": "text"}, "views: no view 'right' (it has: text, negative)"),
        ({"text": 3}, "views.text: expected a view or a mapping of view, draw, dropout, max_length; got 3"),
        (
            {"text": {"seed": 1}},
            "views.text.seed: no such option (there are: view, draw, dropout, max_length)",
        ),
        ({"text": {"draw": -1}}, "views.text.draw: expected a whole number, at least 0; got -1"),
        ({"text": {"draw": True}}, "views.text.draw: expected a whole number, at least 0; got True"),
        ({"text": {"dropout": 0}}, "views.text.dropout: expected true or false; got 0"),
        (
            {"text": {"max_length": 3}},
            "views.text.max_length: expected a number of tokens, at least 4, or null; got 3",
        ),
        (
            {"text": "label"},
            "views.text.view: expected one of left, right, negative, text, text_again, masked_once, "
            "masked_twice, negative_1, negative_2 and so on; got 'label'",
        ),
    ],
)
def test_fault_of_a_change_says_where_and_what_is_accepted(changes: Mapping[str, Any], fault: str):
    with pytest.raises(ValueError, match=rf"\A{re.escape(fault)}\Z"):
        passes(Outside, changes)


def test_all_faults_are_reported_together_one_a_line():
    changes = {"right": "text", "text": {"draw": -1, "seed": 0}, "negative": 5}
    places = ("views", "views.text.draw", "views.text.seed", "views.negative")
    lines = r"\n".join(rf"{re.escape(place)}: [^\n]+" for place in places)
    with pytest.raises(ValueError, match=rf"\A{lines}\Z"):
        passes(Outside, changes)


class Several(nn.Module):
    def forward(self, left: Tensor, negative: Tensor | None = None, **negatives: Tensor) -> Tensor:
        raise AssertionError("only its signature is read")


def test_several_negatives_are_no_parameter_that_a_term_needs():
    assert needs(Several) == Needs(["left"], [], ["negative"], [])


def test_each_numbered_negative_goes_through_the_encoder_as_the_one_would():
    shorter = {"max_length": 8, "dropout": False}
    ways = with_negatives(Several, passes(Several, {"negative": shorter}), 2)
    assert ways == {
        "left": Pass("left"),
        "negative_1": Pass("negative_1", max_length=8, dropout=False),
        "negative_2": Pass("negative_2", max_length=8, dropout=False),
    }
    assert with_negatives(Several, passes(Several), 0) == passes(Several)


@pytest.mark.parametrize("change", [None, "negative_2", "right"])
def test_negatives_that_the_user_left_out_or_chose_stay_so(change):
    ways = passes(Several, {"negative": change})
    assert with_negatives(Several, ways, 3) == ways


def test_a_term_of_one_negative_takes_the_first_alone_and_refuses_more():
    first = {"text": Pass("text", draw=2), "negative": Pass("negative_1")}
    assert with_negatives(Outside, passes(Outside), 1) == first
    chosen = passes(Outside, {"negative": "negative_3"})
    assert with_negatives(Outside, chosen, 3)["negative"] == Pass("negative_3")
    with pytest.raises(ValueError, match="takes one hard negative of a row, and the rows have 3"):
        with_negatives(Outside, passes(Outside), 3)


def test_targets_of_a_view_follow_it_to_its_source():
    ways = passes(Angle, {"left": "text", "right": {"view": "text", "draw": 1}})
    assert source("left_teacher", ways) == source("right_teacher", ways) == "text_teacher"
    assert source("right_identity", ways) == "text_identity"
    assert source("score", ways) == "score"
    assert source("negative_teacher", ways) == "negative_teacher"  # no such parameter


def test_masked_copies_can_be_encoded_with_dropout_after_all():
    ways = passes(MaskedTriplet, {"text": {"dropout": True}})
    assert [way.dropout for way in ways.values()] == [True, False, False]


@pytest.mark.parametrize("value", [0, -0.5, -math.inf, math.nan])
def test_zero_less_and_nan_are_not_positive(value: float):
    with pytest.raises(ValueError, match=f"Term: temperature must be > 0, got {value}"):
        require_positive("Term", "temperature", value)


def test_smallest_number_above_zero_is_positive():
    require_positive("Term", "temperature", 5e-324)


@pytest.mark.parametrize("value", ["c", "A", None, False])
def test_only_the_names_of_a_literal_are_accepted(value: Any):
    with pytest.raises(ValueError, match=f"Term: mode must be one of a, b; got {value!r}"):
        require_choice("Term", "mode", value, Literal["a", "b"])
    require_choice("Term", "mode", "b", Literal["a", "b"])


@pytest.mark.parametrize(
    ("value", "hint"),
    [(0.05, "; a temperature of 0.05 is scale=20"), (0.999, "; a temperature of 0.999 is scale=1.001")],
)
def test_small_scale_is_taken_for_a_temperature(value: float, hint: str):
    expected = f"Term: scale multiplies the similarity and must be >= 1, got {value}{hint}"
    with pytest.raises(ValueError, match=rf"\A{re.escape(expected)}\Z"):
        require_scale("Term", value)


@pytest.mark.parametrize("value", [0.0, -20.0, math.nan])
def test_scale_that_is_no_temperature_either_gets_no_hint(value: float):
    with pytest.raises(ValueError, match=rf"must be >= 1, got {value}\Z"):
        require_scale("Term", value)


def test_scale_of_one_is_accepted():
    require_scale("Term", 1)


@pytest.mark.parametrize(
    ("shape", "wanted", "message"),
    [
        ((3, 1), (3,), r"Term: score must have shape \(3,\), got \(3, 1\)"),
        ((1,), (3,), r"must have shape \(3,\), got \(1,\)"),
        ((4, 2, 5), (4, 3, None), r"must have shape \(4, 3, any\), got \(4, 2, 5\)"),
        ((3, 2), (3, 0), r"must have shape \(3, 0\), got \(3, 2\)"),
        ((), (3,), r"must have shape \(3,\), got \(\)"),
    ],
)
def test_other_shape_is_named(shape: tuple[int, ...], wanted: tuple[int | None, ...], message: str):
    with pytest.raises(ValueError, match=message):
        require_shape("Term", "score", torch.zeros(shape), *wanted)


def test_any_length_stands_for_every_one():
    require_shape("Term", "vectors", torch.zeros(4, 3, 5), 4, 3, None)
    require_shape("Term", "vectors", torch.zeros(0, 0), None, 0)


def test_one_row_or_one_score_is_nothing_to_order():
    one = "a batch of one row has nothing to compare; raise training.batch_size"
    assert nothing_to_order(1, None) == one
    assert nothing_to_order(1, torch.arange(3.0)) == one
    assert nothing_to_order(2, torch.ones(3)) == "all scores of the training rows are equal"


def test_two_rows_with_two_or_unknown_scores_can_be_ordered():
    assert nothing_to_order(2, None) is None
    assert nothing_to_order(2, torch.tensor([1.0, 1.0, 1.5])) is None
