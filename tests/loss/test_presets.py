"""Every mix in conf/loss: its source is named, and it is what its name says."""

import re
from typing import Any

import pytest
from whole_step import MIXES, terms

from embedrun.config import presets
from embedrun.loss.mix import Mix
from embedrun.loss.terms import used


def weights(mix: str) -> dict[str, float]:
    return Mix(terms(mix), dim=4, teacher_dims=(3, 3)).weights


def test_each_names_its_paper_and_the_place_in_it_and_what_rows_it_needs_and_can_be_built():
    for mix in MIXES:
        text = (presets.folder() / "loss" / f"{mix}.yaml").read_text(encoding="utf-8")
        lines = text.split("\n\n")[0].splitlines()
        head = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
        assert re.search(r"Reference: .*(Eq\.|Table|Sec\.|doi:|https:)", head), mix
        assert re.search(r"\bNeeds\b", head), mix
        assert weights(mix)
        # The reading without a gradient is in none.
        assert all(options.get("delta") != "modulus" for options in terms(mix).values())


@pytest.mark.parametrize(
    ("mix", "passes"),
    [
        ("angle", ["left", "right", "negative"]),  # what a data set has of them
        ("supcon", ["text", "text#1"]),
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
    ways = Mix(terms(mix), dim=4, teacher_dims=(3, 3)).ways.values()
    assert list({key: way for one in ways for key, way in used(one, every).items()}) == passes


ANGLE = {
    "cosent": {"weight": 1.0, "temperature": 0.05},
    "in_batch_negatives": {
        "weight": 1.0, "temperature": 0.05, "positive_from": 1.0, "sides": "two", "reduction": "mean_all",
        "identical_texts": "add",
    },
    "angle": {"weight": 1.0, "temperature": 1.0, "delta": "sum", "direction": "similar_large"},
}  # fmt: skip
OFF, ON = {"dropout": False}, {"dropout": True}
ARCCSE = {
    "arccon": {
        "weight": 1.0, "margin": 10, "temperature": 0.05, "negatives": "second",
        "views": {"text": ON, "text_again": {"view": "text", "draw": 1, "dropout": True}},
    },
    "masked_triplet": {
        "weight": 0.1, "margin": 0.0, "views": {"text": OFF, "masked_once": OFF, "masked_twice": OFF}
    },
}  # fmt: skip
RAOE = {
    "rank_margin": {"weight": 1.0, "interval": 2, "scale": 20, "ties": "average"},
    "gated_angular": {"weight": 1.0, "scale": 20, "gate": "both"},
}
TWO_PASSES = {"left": "text", "right": {"view": "text", "draw": 1}}
PUBLISHED: dict[str, dict[str, Any]] = {
    "angle": ANGLE,
    "arccse": ARCCSE,
    "raoe": RAOE,
    "cosent": {"cosent": {"weight": 1.0, "temperature": 0.05}},
    "simcse_supervised": {"infonce": {"weight": 1.0, "temperature": 0.05}},
    "simcse_unsupervised": {
        "infonce": {"weight": 1.0, "temperature": 0.05, "views": {**TWO_PASSES, "negative": None}}
    },
    "simcse_three_way": {
        "in_batch_negatives": {
            "weight": 1.0, "temperature": 0.05, "positive_from": 1.0, "sides": "one",
            "reduction": "mean_pos_rows", "identical_texts": "off",
        }
    },
    "rankcse": {
        "infonce": {"weight": 1.0, "temperature": 0.05, "views": {**TWO_PASSES, "negative": None}},
        "rank_consistency": {"weight": 1.0, "temperature": 0.05, "views": TWO_PASSES},
        "rank_distillation": {
            "weight": 1.0, "method": "listmle", "temperature": 0.05, "teacher_temperature": 0.05,
            "weights": [0.33, 0.67], "views": TWO_PASSES,
        },
    },
    "sbert": {"softmax_nli": {"weight": 1.0}},
    "mse": {"mse": {"weight": 1.0, "source": "precomputed"}},
    "mlm": {"mlm": {"weight": 1.0, "masked": 0.15}},
    "mse_teacher": {"mse": {"weight": 1.0, "source": "teacher"}},
    "mse_embeddings": {"mse_embeddings": {"weight": 1.0}},
}  # fmt: skip
# What each of the others changes in one of these, by term and option.
INFONCE = {"weight": 1.0, "temperature": 0.05}
PUBLISHED |= {
    "infonce": {"infonce": INFONCE | {"direction": "anchor", "mask": None}},
    "angle_triplets": {
        "cosent": {"weight": 0.0, "temperature": 0.05}, "infonce": INFONCE,
        "angle": {"weight": 0.02, "temperature": 0.05},
    },
    "margin_mse": {"margin_mse": {"weight": 1.0, "similarity": "dot"}},
    "kl": {"kl": INFONCE | {"teacher_temperature": 1.0, "similarity": "cosine"}},
    "supcon": {"supcon": {"weight": 1.0, "temperature": 0.1}},
    "sbert_binary": {"softmax_nli": {"weight": 1.0, "classes": 2}},
}  # fmt: skip
CHANGES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "angle_toy": ("angle", {"in_batch_negatives": {"positive_from": 4.5}}),
    "angle_binary": ("angle", {}),
    "angle_llm": ("angle", {"in_batch_negatives": {"weight": 35.0}}),
    "angle_2024": (
        "angle",
        {
            "cosent": {"weight": 0},
            "in_batch_negatives": {"weight": 30.0, "identical_texts": "off"},
            "angle": {"temperature": 0.05},
        },
    ),
    "angle_three_way": ("angle", {}),
    "angle_without_isp": ("angle", {"in_batch_negatives": {"identical_texts": "off"}}),
    "angle_without_ibn": ("angle", {"in_batch_negatives": {"weight": 0}}),
    "angle_without_angle": ("angle", {"angle": {"weight": 0}}),
    "ese": ("angle", {}),
    "angle_only_ibn": ("angle", {"cosent": {"weight": 0}, "angle": {"weight": 0}}),
    "angle_only_angle": ("angle", {"cosent": {"weight": 0}, "in_batch_negatives": {"weight": 0}}),
    "simcse_unsupervised_mlm": ("simcse_unsupervised", {"mlm": {"weight": 0.1, "masked": 0.15}}),
    "simcse_by_label": ("simcse_three_way", {"in_batch_negatives": {"positive_by": "label"}}),
    "arccse_without_triplet": ("arccse", {"masked_triplet": {"weight": 0}}),
    "arccse_without_arccon": ("arccse", {"arccon": {"margin": 0}}),
    "arccse_dropout_mix": (
        "arccse",
        {"arccon": {"views": {"text": ON, "text_again": {"view": "text", "draw": 0, "dropout": False}}}},
    ),
    "arccse_dropout_on": (
        "arccse",
        {
            "masked_triplet": {
                "views": {"text": {"draw": 2, "dropout": True}, "masked_once": ON, "masked_twice": ON}
            }
        },
    ),
    "raoe_s2": ("raoe", {"gated_angular": {"weight": 0}}),
    "raoe_only_rank": ("raoe", {"gated_angular": {"weight": 0}}),
    "raoe_only_angle": ("raoe", {"rank_margin": {"weight": 0}}),
    "raoe_gate_score": ("raoe", {"gated_angular": {"gate": "score"}}),
    "raoe_gate_label": ("raoe", {"gated_angular": {"gate": "label"}}),
    "raoe_without_margin": ("raoe", {"rank_margin": {"interval": 0}}),
}


def test_constants_of_the_published_mixes_and_what_each_variant_changes():
    assert {*PUBLISHED, *CHANGES} == set(MIXES)
    assert {mix: terms(mix) for mix in PUBLISHED} == PUBLISHED
    for mix, (base, changes) in CHANGES.items():
        expected = {
            term: PUBLISHED[base].get(term, {}) | changes.get(term, {}) for term in PUBLISHED[base] | changes
        }
        assert terms(mix) == expected, mix
