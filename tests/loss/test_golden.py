"""Every worked case of tests/golden/losses.json, in value and gradient."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from embedrun.loss.angle import Angle, complex_angle
from embedrun.loss.arccon import Arccon
from embedrun.loss.cosent import Cosent
from embedrun.loss.cosine import cosine
from embedrun.loss.gated_angular import GatedAngular
from embedrun.loss.in_batch_negatives import InBatchNegatives
from embedrun.loss.infonce import Infonce
from embedrun.loss.masked_triplet import MaskedTriplet
from embedrun.loss.mix import Mix
from embedrun.loss.rank_margin import RankMargin

Case = dict[str, Any]
Embeddings = dict[str, Tensor]

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "losses.json").read_text(encoding="utf-8"))

# How the variants of the file are written as options. A variant that is not here fails its case.
IBN_VARIANTS: dict[str, Any] = {
    "two_sided/isp=off": {"sides": "two", "identical_texts": "off"},
    "two_sided/isp=off/mean over positive rows": {"sides": "two", "identical_texts": "off"},
    "two_sided/isp=add": {"sides": "two", "identical_texts": "add"},
    "two_sided/isp=union": {"sides": "two", "identical_texts": "union"},
    "two_sided/isp=mask": {"sides": "two", "identical_texts": "mask"},
    "one_sided/sum": {"sides": "one", "identical_texts": "off"},
    "one_sided/mean": {"sides": "one", "identical_texts": "off"},
}
IBN_REDUCTIONS: dict[str, Any] = {
    "mean_all": "mean_all",
    "mean_pos_rows": "mean_pos_rows",
    "mean": "mean_pos_rows",
    "sum": "sum",
}


def column(case: Case, name: str) -> Tensor:
    return torch.tensor(case["inputs"][name], dtype=torch.float64)


def take(case: Case, *names: str) -> list[Any]:
    """The values of exactly these constants: one that the mapping ignores fails the case."""
    assert sorted(case["hyper"]) == sorted(names), f"{case['id']}: constants {sorted(case['hyper'])}"
    return [case["hyper"][name] for name in names]


def cosent(case: Case, embeddings: Embeddings) -> Tensor:
    assert case["variant"] == "default"
    (temperature,) = take(case, "tau")
    term = Cosent(temperature=temperature)
    return term(embeddings["text1"], embeddings["text2"], column(case, "labels"))


def in_batch_negatives(case: Case, embeddings: Embeddings) -> Tensor:
    temperature, positive_from, reduction = take(case, "tau", "pos_threshold", "reduction")
    term = InBatchNegatives(
        temperature=temperature,
        positive_from=positive_from,
        reduction=IBN_REDUCTIONS[reduction],
        **IBN_VARIANTS[case["variant"]],
    )
    identity: list[Tensor | None] = [None, None]
    if texts := case["inputs"].get("texts_interleaved"):
        number = torch.tensor([texts.index(text) for text in texts])  # (2 * pairs,)
        identity = [number[0::2], number[1::2]]
    return term(embeddings["text1"], embeddings["text2"], column(case, "labels"), *identity)


def angle(case: Case, embeddings: Embeddings) -> Tensor:
    temperature, delta, direction = take(case, "tau", "delta", "direction")
    assert case["variant"] == f"delta={delta}/{direction}"
    term = Angle(temperature=temperature, delta=delta, direction=direction)
    return term(embeddings["text1"], embeddings["text2"], column(case, "labels"))


def angle_delta(case: Case, embeddings: Embeddings) -> Tensor:
    take(case)
    return complex_angle(embeddings["text1"], embeddings["text2"], case["variant"])


def angle_total(case: Case, embeddings: Embeddings) -> Tensor:
    assert case["variant"] == "w1*cosine + w2*ibn + w3*angle"
    w1, w2, w3, *temperatures = take(case, "w1", "w2", "w3", "cosine_tau", "ibn_tau", "angle_tau")
    mix = Mix(
        {
            "cosent": {"weight": w1, "temperature": temperatures[0]},
            "in_batch_negatives": {"weight": w2, "temperature": temperatures[1], "identical_texts": "off"},
            "angle": {"weight": w3, "temperature": temperatures[2]},
        }
    )
    views = {"left": embeddings["text1"], "right": embeddings["text2"]}
    return mix(views, {"score": column(case, "labels")})[0]


def infonce(case: Case, embeddings: Embeddings) -> Tensor:
    (temperature,) = take(case, "tau")
    assert case["variant"] == "hard negatives"
    return Infonce(temperature=temperature)(
        *(embeddings[name] for name in ("anchor", "positive", "negative"))
    )


def arccon(case: Case, embeddings: Embeddings) -> Tensor:
    margin, temperature, negatives = take(case, "margin_deg", "tau", "negatives")
    assert case["variant"] == f"negatives={negatives}"
    term = Arccon(margin=margin, temperature=temperature, negatives=negatives)
    return term(embeddings["h"], embeddings["h_star"])


def masked_triplet(case: Case, embeddings: Embeddings) -> Tensor:
    (margin,) = take(case, "margin")
    assert case["variant"] == "mean"
    views = (embeddings[name] for name in ("h", "h_prime", "h_double_prime"))
    return MaskedTriplet(margin=margin)(*views)


def arccse_total(case: Case, embeddings: Embeddings) -> Tensor:
    assert case["variant"] == "L_arc + lambda*L_tri"
    angle, tau, negatives, margin, weight = take(case, "margin_deg", "tau", "negatives", "margin", "lambda")
    mix = Mix(
        {
            "arccon": {"margin": angle, "temperature": tau, "negatives": negatives},
            "masked_triplet": {"weight": weight, "margin": margin},
        }
    )
    keys = {
        "h": "text",
        "h_star": "text#1",
        "h_bar": "text-dropout",
        "h_prime": "masked_once-dropout",
        "h_double_prime": "masked_twice-dropout",
    }
    return mix({key: embeddings[name] for name, key in keys.items()}, {})[0]


def rank_margin(case: Case, embeddings: Embeddings) -> Tensor:
    scale, interval, ties = take(case, "scale", "margin", "rank_method")
    assert case["variant"] == f"rank={ties}"
    term = RankMargin(scale=scale, interval=interval, ties=ties)
    return term(embeddings["text1"], embeddings["text2"], column(case, "scores"))


def gated_angular(case: Case, embeddings: Embeddings) -> Tensor:
    scale, gate = take(case, "scale", "gate")
    assert case["variant"] == f"gate={gate}"
    targets = column(case, "labels"), column(case, "scores")
    return GatedAngular(scale=scale, gate=gate)(embeddings["text1"], embeddings["text2"], *targets)


def raoe_total(case: Case, embeddings: Embeddings) -> Tensor:
    assert case["variant"] == "w_rank*rank + w_angle*angular"
    scale, interval, w_rank, w_angle, ties, gate = take(
        case, "scale", "margin", "w_rank", "w_angle", "rank_method", "gate"
    )
    mix = Mix(
        {
            "rank_margin": {"weight": w_rank, "scale": scale, "interval": interval, "ties": ties},
            "gated_angular": {"weight": w_angle, "scale": scale, "gate": gate},
        }
    )
    views = {"left": embeddings["text1"], "right": embeddings["text2"]}
    return mix(views, {"label": column(case, "labels"), "score": column(case, "scores")})[0]


OBJECTIVES: dict[str, Callable[[Case, Embeddings], Tensor]] = {
    "cosent": cosent,
    "angle.cosine": cosent,
    "angle.ibn": in_batch_negatives,
    "angle.angle": angle,
    "angle.delta": angle_delta,
    "angle.total": angle_total,
    "contrastive.infonce": infonce,
    "arccse.arccon": arccon,
    "arccse.triplet": masked_triplet,
    "arccse.total": arccse_total,
    "raoe.rank_margin": rank_margin,
    "raoe.gated_angular": gated_angular,
    "raoe.total": raoe_total,
}
COUNTS = {
    "cosent": 5,
    "angle.cosine": 11,
    "angle.ibn": 20,
    "angle.angle": 17,
    "angle.delta": 1,
    "angle.total": 4,
    "contrastive.infonce": 2,
    "arccse.arccon": 12,
    "arccse.triplet": 8,
    "arccse.total": 1,
    "raoe.rank_margin": 15,
    "raoe.gated_angular": 12,
    "raoe.total": 2,
}
EMBEDDINGS = {
    "text1", "text2", "anchor", "positive", "negative", "h", "h_star", "h_bar", "h_prime", "h_double_prime",
}  # fmt: skip
OTHER_INPUTS = {"labels", "scores", "texts_interleaved"}
CASES = {case["id"]: case for case in GOLDEN["cases"]}
FINITE = [name for name, case in CASES.items() if case.get("finite_gradient")]


def embeddings_of(case: Case, dtype: torch.dtype) -> Embeddings:
    """Every list of vectors among the inputs, as a leaf that wants a gradient; an empty one is (0, 2)."""
    return {
        name: torch.tensor(values, dtype=dtype).reshape(len(values), -1 if values else 2).requires_grad_()
        for name, values in case["inputs"].items()
        if name in EMBEDDINGS
    }


def test_no_case_is_left_out():
    assert Counter(case["objective"] for case in CASES.values()) == COUNTS
    assert len(CASES) == len(GOLDEN["cases"]) == 110  # ids are unique
    assert set(COUNTS) == set(OBJECTIVES)
    assert {name for case in CASES.values() for name in case["inputs"]} == EMBEDDINGS | OTHER_INPUTS
    assert len(FINITE) == sum(case.get("finite_gradient", False) for case in CASES.values()) > 0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_values_in_float64_in_float32_and_under_autocast(objective: str):
    value = OBJECTIVES[objective]
    for case in (case for case in CASES.values() if case["objective"] == objective):
        narrow = embeddings_of(case, torch.float32)
        found = {
            "exact": value(case, embeddings_of(case, torch.float64)).detach(),
            "narrow": value(case, narrow).detach(),
        }
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(value(case, narrow), found["narrow"]), case["id"]
        expected = torch.tensor(case["expected"], dtype=torch.float64)
        tolerance = case.get("tol", GOLDEN["default_tolerance"])
        torch.testing.assert_close(found["exact"], expected, rtol=0, atol=tolerance, msg=case["id"])
        tolerance = case.get("tol", 1e-6)
        torch.testing.assert_close(
            found["narrow"], expected.float(), rtol=2e-5, atol=tolerance, msg=case["id"]
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_gradients_are_finite(dtype: torch.dtype):
    for name in FINITE:
        case = CASES[name]
        for autocast in (False, True):
            embeddings = embeddings_of(case, dtype)
            lower = torch.bfloat16 if dtype == torch.float32 else dtype
            with torch.autocast("cpu", dtype=lower, enabled=autocast):
                value = OBJECTIVES[case["objective"]](case, embeddings)
            assert torch.isfinite(value), name
            value.backward()
            for view in embeddings.values():
                assert view.grad is not None
                assert torch.isfinite(view.grad).all(), name


def test_delta_case_also_gives_phases_and_cosines():
    case = CASES["angle_delta_values"]
    left, right = embeddings_of(case, torch.float64).values()
    for value, key in ((complex_angle(left, right, "phase"), "phase"), (cosine(left, right), "cosine")):
        expected = torch.tensor(case[f"expected_{key}"], dtype=torch.float64)
        torch.testing.assert_close(value.detach(), expected, rtol=0, atol=1e-6)
