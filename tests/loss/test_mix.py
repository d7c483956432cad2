import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from embedrun.config import LayersConfig
from embedrun.loss import mix as module
from embedrun.loss.angle import Angle
from embedrun.loss.cosent import Cosent
from embedrun.loss.infonce import Infonce
from embedrun.loss.mix import Mix
from embedrun.loss.rank_distillation import RankDistillation


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


def test_losses_of_cut_vectors_are_those_of_shorter_vectors_of_length_1():
    embeddings, targets = batch()
    options = {"cosent": {"temperature": 0.1}, "angle": {"weight": 0.5}}
    total, values = Mix(options, cuts={4: 1.0, 3: 0.25})(embeddings, targets)
    parts = []
    for dim in (4, 3):
        short = {
            name: whole[:, :dim] / whole[:, :dim].norm(dim=1, keepdim=True)
            for name, whole in embeddings.items()
        }
        parts.append(Mix(options)(short, targets))
    torch.testing.assert_close(total, parts[0][0] + 0.25 * parts[1][0])
    for key, value in values.items():
        torch.testing.assert_close(value, parts[0][1][key] + 0.25 * parts[1][1][key])
    expected = torch.autograd.grad(parts[0][0] + 0.25 * parts[1][0], embeddings["left"])[0]
    (found,) = torch.autograd.grad(total, embeddings["left"])
    torch.testing.assert_close(found, expected)
    assert not found[:, 4:].any()  # no loss sees the rest


def test_inner_layers_count_as_the_last_and_are_pulled_to_it():
    embeddings, targets = batch()
    inner = {name: vectors.detach().flip(1).requires_grad_() for name, vectors in embeddings.items()}
    both = {name: torch.cat([inner[name], embeddings[name]], dim=1) for name in embeddings}
    options = {"cosent": {"temperature": 0.1}}
    config = LayersConfig(weight=0.5, weighting="log", divergence=2.0, temperature=0.5)
    total, values = Mix(options, dim=6, layers=config)(both, targets)
    last, of_last = Mix(options)(embeddings, targets)
    first, _ = Mix(options)(inner, targets)
    goal, own = (torch.cat([*side.values()]) / 0.5 for side in (embeddings, inner))
    goal = goal.softmax(dim=1).detach()
    divergence = (goal * (goal.log() - own.log_softmax(dim=1))).sum() / len(goal)
    expected = last + 0.5 / (1 + math.log(2)) * first + 2.0 * 0.5 * divergence
    torch.testing.assert_close(total, expected)
    assert values == of_last
    for leaf in (*inner.values(), *embeddings.values()):
        (found,) = torch.autograd.grad(total, leaf, retain_graph=True)
        torch.testing.assert_close(found, torch.autograd.grad(expected, leaf, retain_graph=True)[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("term", "ours"),
    [("CoSENTLoss", "cosent"), ("AnglELoss", "angle"), ("MultipleNegativesRankingLoss", "infonce")],
)
def test_cut_losses_are_those_of_sentence_transformers(term: str, ours: str):
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    embeddings, targets = batch(torch.float32)

    class Model(nn.Module):
        def get_embedding_dimension(self) -> int:
            return 6

        def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
            return {"sentence_embedding": features["vectors"]}

    model = Model()
    whole = getattr(losses, term)(model, scale=20.0)
    theirs = losses.MatryoshkaLoss(model, whole, [6, 4, 2], [1.0, 0.5, 0.25])
    sides = [{"vectors": embeddings[side]} for side in ("left", "right")]
    expected = theirs(sides, targets["score"])
    options = {ours: {"temperature": 0.05}}
    total, _ = Mix(options, cuts={6: 1.0, 4: 0.5, 2: 0.25})(embeddings, targets)
    torch.testing.assert_close(total, expected, rtol=1e-5, atol=1e-5)
    for side in embeddings.values():
        (one,) = torch.autograd.grad(total, side, retain_graph=True)
        (other,) = torch.autograd.grad(expected, side, retain_graph=True)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_term_that_sees_lengths_gets_cut_vectors_of_length_1(monkeypatch: pytest.MonkeyPatch):
    class First(nn.Module):
        def forward(self, left: Tensor) -> Tensor:
            return left[:, 0].sum()

    monkeypatch.setattr(module.family, "find", lambda *_: First)
    left = torch.tensor([[3.0, 4.0, 12.0]])
    total, _ = Mix({"first": {}}, cuts={3: 1.0, 2: 10.0})({"left": left}, {})
    assert total.item() == pytest.approx(3 / 13 + 10 * 3 / 5)


def test_the_share_of_a_term_is_that_of_its_weighted_gradient(monkeypatch: pytest.MonkeyPatch):
    class Left(nn.Module):
        def forward(self, left: Tensor) -> Tensor:
            return left.sum()  # the gradient is four ones, of norm 2

    class Both(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            return (1.5 * left + 2 * right).sum()  # of norm 2 * 2.5

    class Nothing(nn.Module):
        def forward(self, left: Tensor) -> Tensor:
            return left.new_zeros(())

    monkeypatch.setattr(module.family, "find", lambda _, name: {"a": Left, "b": Both, "c": Nothing}[name])
    leaves = {name: torch.ones(2, 2, requires_grad=True) for name in ("left", "right", "text")}
    mix = Mix({"a": {"weight": 7.5}, "b": {}, "c": {}})  # norms 15, 5 and 0
    total, values = mix(leaves, {})
    shares = mix.gradient_shares(leaves, values)
    assert {name: share.item() for name, share in shares.items()} == {
        "gradient_share/a": 0.75,
        "gradient_share/b": 0.25,
        "gradient_share/c": 0,
    }
    total.backward()  # the graph is still there
    alone = Mix({"a": {}})
    assert alone.gradient_shares(leaves, alone(leaves, {})[1]) == {}


def test_term_of_weight_zero_is_not_made():
    # Neither its name nor its options are looked at.
    mix = Mix({"cosent": {"weight": 1}, "nosuch": {"weight": 0, "nosuch": 1}})
    assert list(mix.terms) == ["cosent"]
    embeddings, targets = batch()
    assert list(mix(embeddings, targets)[1]) == ["cosent"]


def test_missing_view_or_target_is_named():
    embeddings, targets = batch()
    mix = Mix({"first": {"name": "rank_margin"}})
    with pytest.raises(ValueError, match="Mix: first needs the target score, got label"):
        mix(embeddings, {"label": targets["score"]})
    with pytest.raises(ValueError, match="Mix: first needs the view right, got left"):
        mix({"left": embeddings["left"]}, targets)
    with pytest.raises(ValueError, match="Mix: first needs the view left, got none"):
        mix({}, targets)


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf])
def test_weight_must_be_a_finite_number_of_at_least_zero(weight: float):
    with pytest.raises(ValueError, match=f"Mix: weight of cosent must be >= 0 and finite, got {weight}"):
        Mix({"cosent": {"weight": weight}})


@pytest.mark.parametrize("terms", [{}, {"cosent": {"weight": 0}}])
def test_mix_of_nothing_is_refused(terms: dict[str, dict[str, Any]]):
    with pytest.raises(ValueError, match="no term has a weight above 0"):
        Mix(terms)


# SimCSE without labels: two passes of one text.
TWO_DRAWS = {"infonce": {"views": {"left": "text", "right": {"view": "text", "draw": 1}}}}


def vectors(*keys: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return dict(zip(keys, torch.randn(len(keys), 4, 6, generator=generator), strict=True))


def test_views_name_the_passes_that_a_term_reads():
    embeddings = vectors("text", "text#1")
    _, values = Mix(TWO_DRAWS)(embeddings, {})
    assert torch.equal(values["infonce"], Infonce()(embeddings["text"], embeddings["text#1"]))
    with pytest.raises(ValueError, match="Mix: infonce needs the view text#1, got text"):
        Mix(TWO_DRAWS)(vectors("text"), {})


def test_every_numbered_negative_reaches_the_term_unless_it_is_left_out():
    embeddings = vectors("left", "right", "negative_1", "negative_2")
    left, right, first, second = embeddings.values()
    _, values = Mix({"infonce": {}}, negatives=2)(embeddings, {})
    assert torch.equal(values["infonce"], Infonce()(left, right, negative_1=first, negative_2=second))
    _, values = Mix({"infonce": {"views": {"negative": "negative_2"}}}, negatives=2)(embeddings, {})
    assert torch.equal(values["infonce"], Infonce()(left, right, second))
    _, values = Mix({"infonce": {"views": {"negative": None}}}, negatives=2)(embeddings, {})
    assert torch.equal(values["infonce"], Infonce()(left, right))


def test_targets_of_texts_follow_the_views():
    embeddings = vectors("text", "text#1")
    teacher = torch.randn(4, 1, 3, generator=torch.Generator().manual_seed(6))
    views = TWO_DRAWS["infonce"]["views"]
    mix = Mix({"rank_distillation": {"views": views}}, teacher_dims=(3,))
    _, values = mix(embeddings, {"text_teacher": teacher})
    expected = RankDistillation(teacher_dims=(3,))(*embeddings.values(), teacher, teacher)
    assert torch.equal(values["rank_distillation"], expected)
    with pytest.raises(ValueError, match="Mix: rank_distillation needs the target text_teacher, got none"):
        mix(embeddings, {})


def test_signals_are_the_comparisons_of_the_terms_by_key():
    embeddings, targets = batch()
    mix = Mix({"cosent": {}, "sharp": {"name": "angle"}, "mse": {}})  # mse compares nothing
    found = mix.signals(embeddings, targets)
    assert list(found) == ["active/cosent", "violated/cosent", "active/sharp", "violated/sharp"]
    for key, term in (("cosent", Cosent()), ("sharp", Angle())):
        active, violated = term.comparisons(embeddings["left"], embeddings["right"], targets["score"])
        assert (found[f"active/{key}"], found[f"violated/{key}"]) == (active, violated)
    assert found["active/cosent"].item() == pytest.approx(5 / 6)  # one tie in four scores
    assert not any(value.requires_grad or value.ndim for value in found.values())


def test_weights_of_terms_are_parameters_of_the_mix_and_get_gradients():
    mix = Mix({"softmax_nli": {}, "cosent": {}}, dim=6)
    names = [name for name, _ in mix.named_parameters()]
    assert names == ["terms.softmax_nli.classifier.weight", "terms.softmax_nli.classifier.bias"]
    embeddings, targets = batch(torch.bfloat16)
    total, _ = mix(embeddings, targets | {"label": torch.tensor([0, 2, 1, 0])})
    total.backward()
    assert all(one.grad is not None and one.grad.count_nonzero() > 0 for one in mix.parameters())
