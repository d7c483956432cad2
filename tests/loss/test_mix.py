import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn

from embedrun.loss import mix as module
from embedrun.loss.angle import Angle
from embedrun.loss.cosent import Cosent
from embedrun.loss.in_batch_negatives import InBatchNegatives
from embedrun.loss.mix import Mix

PRESETS = Path(__file__).parents[2] / "conf" / "loss"


class Product(nn.Module):
    """Records what it is called with; a matrix product is what autocast lowers."""

    def forward(self, left: Tensor, weight: Tensor, label: Tensor | None = None) -> Tensor:
        self.seen = (left.dtype, weight, label)
        product = left @ left.T  # (rows, rows)
        self.computed = product.dtype
        return product.sum()


@pytest.fixture
def product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.family, "find", lambda kind, name: {"product": Product}[name])


def batch(dtype: torch.dtype = torch.float64) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(4)
    left, right = torch.randn(2, 4, 6, dtype=torch.float64, generator=generator).to(dtype)
    targets = {
        "score": torch.tensor([1.0, 0.0, 0.4, 1.0]),
        "left_identity": torch.tensor([0, 1, 2, 0]),
        "right_identity": torch.tensor([3, 4, 5, 6]),
    }
    return {"left": left.requires_grad_(), "right": right.requires_grad_()}, targets


def test_total_is_the_weighted_sum_of_the_terms():
    embeddings, targets = batch()
    left, right, score = embeddings["left"], embeddings["right"], targets["score"]
    total, values = Mix({"cosent": {"weight": 2, "temperature": 0.1}, "angle": {"weight": 0.5}})(
        embeddings, targets
    )
    cosent = Cosent(temperature=0.1)(left, right, score)
    angle = Angle()(left, right, score)
    torch.testing.assert_close(total, 2 * cosent + 0.5 * angle)
    assert list(values) == ["cosent", "angle"]
    torch.testing.assert_close(values["cosent"], cosent.detach())  # unweighted
    torch.testing.assert_close(values["angle"], angle.detach())


def test_values_are_detached_and_the_total_is_not():
    embeddings, targets = batch()
    total, values = Mix({"cosent": {"weight": 1}})(embeddings, targets)
    assert not values["cosent"].requires_grad
    total.backward()
    assert embeddings["left"].grad is not None
    assert embeddings["left"].grad.count_nonzero() > 0


def test_term_can_be_there_twice_under_other_keys():
    embeddings, targets = batch()
    sharp = {"name": "cosent", "weight": 1, "temperature": 0.01}
    _, values = Mix({"cosent": {"weight": 1}, "sharp": sharp})(embeddings, targets)
    assert list(values) == ["cosent", "sharp"]
    assert values["sharp"] > values["cosent"] > 0


def test_weight_left_out_is_one():
    assert Mix({"cosent": {}}).weights == {"cosent": 1.0}


def test_term_of_weight_zero_is_not_made():
    # Neither its name nor its options are looked at.
    mix = Mix({"cosent": {"weight": 1}, "nosuch": {"weight": 0, "nosuch": 1}})
    assert list(mix.terms) == ["cosent"]
    embeddings, targets = batch()
    assert list(mix(embeddings, targets)[1]) == ["cosent"]


def test_optional_targets_reach_the_term_when_they_are_there():
    embeddings, targets = batch()
    _, values = Mix({"in_batch_negatives": {}})(embeddings, targets)
    expected = InBatchNegatives()(*embeddings.values(), *targets.values())
    torch.testing.assert_close(values["in_batch_negatives"], expected.detach())
    del targets["left_identity"]
    with pytest.raises(ValueError, match="needs left_identity and right_identity"):
        Mix({"in_batch_negatives": {}})(embeddings, targets)


def test_missing_view_or_target_is_named():
    embeddings, targets = batch()
    mix = Mix({"first": {"name": "cosent"}})
    with pytest.raises(ValueError, match="Mix: first needs the target score, got label"):
        mix(embeddings, {"label": targets["score"]})
    with pytest.raises(ValueError, match="Mix: first needs the view right, got left"):
        mix({"left": embeddings["left"]}, targets)


@pytest.mark.usefixtures("product")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_term_computes_in_float32_under_autocast(dtype: torch.dtype):
    mix = Mix({"product": {}})
    weight = torch.ones(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = mix({"left": torch.ones(2, 2, dtype=dtype)}, {"weight": weight})
    term = mix.terms["product"]
    assert isinstance(term, Product)
    assert term.seen == (torch.float32, weight, None)
    assert term.computed == total.dtype == torch.float32


@pytest.mark.usefixtures("product")
def test_float64_is_not_narrowed():
    total, _ = Mix({"product": {}})(
        {"left": torch.ones(2, 2, dtype=torch.float64)}, {"weight": torch.ones(2)}
    )
    assert total.dtype == torch.float64


def test_half_embeddings_get_half_gradients():
    embeddings, targets = batch(torch.bfloat16)
    total, _ = Mix({"cosent": {}, "in_batch_negatives": {}, "angle": {}})(embeddings, targets)
    total.backward()
    assert total.dtype == torch.float32
    for view in embeddings.values():
        assert view.grad is not None
        assert view.grad.dtype == torch.bfloat16
        assert torch.isfinite(view.grad).all()


def test_without_any_comparison_the_total_is_zero_and_attached():
    embeddings, targets = batch()
    targets["score"] = torch.zeros(4)
    options = {"identical_texts": "off"}
    total, _ = Mix({"cosent": {}, "in_batch_negatives": options, "angle": {}})(embeddings, targets)
    total.backward()
    assert total.item() == 0
    assert embeddings["right"].grad is not None
    assert embeddings["right"].grad.count_nonzero() == 0


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf])
def test_weight_must_be_a_finite_number_of_at_least_zero(weight: float):
    with pytest.raises(ValueError, match=f"Mix: weight of cosent must be >= 0 and finite, got {weight}"):
        Mix({"cosent": {"weight": weight}})


@pytest.mark.parametrize("terms", [{}, {"cosent": {"weight": 0}}])
def test_mix_of_nothing_is_refused(terms: dict[str, dict[str, Any]]):
    with pytest.raises(ValueError, match="no term has a weight above 0"):
        Mix(terms)


def test_unknown_term_is_a_key_error_and_unknown_option_a_type_error():
    with pytest.raises(KeyError, match="cosnet"):
        Mix({"cosnet": {}})
    with pytest.raises(TypeError, match="temprature"):
        Mix({"cosent": {"temprature": 1.0}})


@pytest.mark.parametrize("name", ["angle", "cosent"])
def test_preset_makes_a_mix_that_gives_a_loss(name: str):
    preset = yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))
    embeddings, targets = batch()
    total, values = Mix(preset["terms"])(embeddings, targets)
    assert total.item() > 0
    assert list(values) == list(preset["terms"])


def test_angle_preset_reads_the_published_in_batch_term():
    # Two copies of one text, and a score of 0.9, which is below 1: the golden case ibn2_dup_add.
    golden = Path(__file__).parents[1] / "golden" / "losses.json"
    cases = json.loads(golden.read_text(encoding="utf-8"))["cases"]
    case = next(case for case in cases if case["id"] == "ibn2_dup_add")
    preset = yaml.safe_load((PRESETS / "angle.yaml").read_text(encoding="utf-8"))["terms"]
    embeddings = {
        "left": torch.tensor(case["inputs"]["text1"]),
        "right": torch.tensor(case["inputs"]["text2"]),
    }
    score = [0.9 if label == 0 else label for label in case["inputs"]["labels"]]
    targets = {
        "score": torch.tensor(score),
        "left_identity": torch.tensor([0, 1, 0]),
        "right_identity": torch.tensor([2, 3, 4]),
    }
    _, values = Mix(preset)(embeddings, targets)
    assert values["in_batch_negatives"].item() == pytest.approx(case["official_code_value"], rel=2e-5)
    assert [preset[key]["weight"] for key in preset] == [1, 1, 1]
