"""Every mix in conf/loss: its source is named, and it is what its name says."""

import re

import pytest
from whole_step import MIXES, terms

from embedrun import presets
from embedrun.loss.mix import Mix


def weights(mix: str) -> dict[str, float]:
    return Mix(terms(mix), dim=4, teacher_dims=(3, 3)).weights


@pytest.mark.parametrize("mix", MIXES)
def test_each_names_its_paper_and_the_place_in_it_and_what_rows_it_needs(mix: str):
    text = (presets.folder() / "loss" / f"{mix}.yaml").read_text(encoding="utf-8")
    head = " ".join(line.lstrip("# ") for line in text.split("\n\n")[0].splitlines() if line.startswith("#"))
    assert re.search(r"Reference: .*(Eq\.|Table|Sec\.|doi:|https:)", head)
    assert re.search(r"\bNeeds\b", head)


@pytest.mark.parametrize("mix", MIXES)
def test_each_can_be_built_and_none_uses_the_reading_without_a_gradient(mix: str):
    assert weights(mix)
    assert all(options.get("delta") != "modulus" for options in terms(mix).values())


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        ("angle", {"cosent": 1, "in_batch_negatives": 1, "angle": 1}),
        ("angle_llm", {"cosent": 1, "in_batch_negatives": 35, "angle": 1}),
        ("angle_2024", {"in_batch_negatives": 30, "angle": 1}),
        ("angle_without_ibn", {"cosent": 1, "angle": 1}),
        ("angle_without_angle", {"cosent": 1, "in_batch_negatives": 1}),
        ("angle_only_ibn", {"in_batch_negatives": 1}),
        ("angle_only_angle", {"angle": 1}),
        ("arccse", {"arccon": 1, "masked_triplet": 0.1}),
        ("arccse_without_triplet", {"arccon": 1}),
        ("raoe", {"rank_margin": 1, "gated_angular": 1}),
        ("raoe_s2", {"rank_margin": 1}),
        ("raoe_only_rank", {"rank_margin": 1}),
        ("raoe_only_angle", {"gated_angular": 1}),
        ("rankcse", {"infonce": 1, "rank_consistency": 1, "rank_distillation": 1}),
    ],
)
def test_weights_of_the_published_mixes(mix: str, expected: dict[str, float]):
    assert weights(mix) == expected


@pytest.mark.parametrize(
    ("mix", "passes"),
    [
        ("angle", ["left", "right"]),
        ("arccse", ["text", "text#1", "text-dropout", "masked_once-dropout", "masked_twice-dropout"]),
        ("arccse_dropout_mix", ["text", "text-dropout", "masked_once-dropout", "masked_twice-dropout"]),
        ("arccse_dropout_on", ["text", "text#1", "text#2", "masked_once", "masked_twice"]),
        ("simcse_unsupervised", ["text", "text#1"]),
        ("rankcse", ["text", "text#1"]),
        ("simcse_supervised", ["left", "right", "negative"]),
    ],
)
def test_passes_of_the_published_mixes(mix: str, passes: list[str]):
    every = ("left", "right", "negative", "text", "masked_once", "masked_twice")
    assert list(Mix(terms(mix), dim=4, teacher_dims=(3, 3)).passes(every)) == passes


def test_the_gates_of_raoe_and_the_margin_of_arccse_are_switched_off_by_name():
    assert terms("raoe_gate_score")["gated_angular"]["gate"] == "score"
    assert terms("raoe_gate_label")["gated_angular"]["gate"] == "label"
    assert terms("arccse_without_arccon")["arccon"]["margin"] == 0
    assert terms("angle_without_isp")["in_batch_negatives"]["identical_texts"] == "off"
