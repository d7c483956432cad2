"""Terms on triplets, lists and classes: values worked out by hand, and those of other libraries."""

import math

import pytest
import torch
from torch import Tensor

from embedrun.loss.angle import Angle
from embedrun.loss.cosent import Cosent
from embedrun.loss.infonce import Infonce
from embedrun.loss.kl import Kl
from embedrun.loss.margin_mse import MarginMse
from embedrun.loss.softmax_nli import SoftmaxNli
from embedrun.loss.supcon import Supcon


def unit(*degrees: float) -> Tensor:
    """Unit vectors in the plane at these angles, ``(rows, 2)``, double."""
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([angles.cos(), angles.sin()], dim=1)


ZERO, SIXTY, NINETY = unit(0, 0), unit(60, 60), unit(90, 90)


def test_each_positive_of_a_triplet_is_ordered_before_each_hard_negative():
    # cosines: positives 0.5 and 0.5, negatives 0 and 0; four ordered pairs of e^{(0 - 0.5) / 0.5}
    left = ZERO.clone().requires_grad_()
    value = Cosent(temperature=0.5)(left, SIXTY, negative=NINETY)
    assert value.item() == pytest.approx(math.log(1 + 4 * math.exp(-1)))
    value.backward()
    # each row is in two pairs; d cos / d angle is -sin: of the positive sin 60, of the negative sin 90
    share = math.exp(-1) / (1 + 4 * math.exp(-1))
    expected = 2 * share / 0.5 * (1 - math.sin(math.radians(60)))
    assert left.grad is not None
    assert left.grad[:, 1].tolist() == pytest.approx([expected] * 2)
    two = Cosent(temperature=0.5)(
        ZERO, SIXTY, hard_negatives=torch.tensor([2, 1]), negative_1=NINETY, negative_2=NINETY
    )
    assert two.item() == pytest.approx(math.log(1 + 6 * math.exp(-1)))
    assert Cosent()(ZERO, SIXTY).item() == 0  # positives alone have no order


@pytest.mark.slow
def test_triplets_and_positive_pairs_are_those_of_the_library_of_angle():
    angle_emb = pytest.importorskip("angle_emb.angle")
    generator = torch.Generator().manual_seed(5)
    for _ in range(200):
        rows, dim = (int(torch.randint(low, 9, (), generator=generator)) for low in (2, 1))
        vectors = torch.randn(3 * rows, 2 * dim, dtype=torch.float64, generator=generator)
        text, positive, negative = vectors[::3], vectors[1::3], vectors[2::3]
        for weights, term in (
            ({"cosine_w": 1.0, "angle_w": 0.0}, Cosent(temperature=0.05)),
            ({"cosine_w": 0.0, "angle_w": 1.0}, Angle(temperature=0.05)),
        ):
            theirs = angle_emb.AngleLoss(
                ibn_w=0.0, cln_w=0.0, dataset_format=angle_emb.DatasetFormats.B, **weights
            )
            expected = theirs(None, vectors)
            torch.testing.assert_close(
                term(text, positive, negative=negative), expected, rtol=1e-6, atol=1e-6
            )
        # Of positive pairs it has the contrast alone.
        pairs = torch.stack([text, positive], dim=1).reshape(-1, 2 * dim)
        expected = angle_emb.AngleLoss(dataset_format=angle_emb.DatasetFormats.C)(None, pairs)
        torch.testing.assert_close(Infonce(temperature=0.05)(text, positive), expected, rtol=1e-6, atol=1e-6)


def test_infonce_has_two_directions():
    # cosines of the anchors at 0 and 90 with the positives at 0 and 60: 1, 0.5 and 0, 0.866
    left, right = unit(0, 90), unit(0, 60)
    high, low = math.cos(0), math.cos(math.radians(30))
    anchor = (math.log(1 + math.exp(0.5 - high)) + math.log(1 + math.exp(0 - low))) / 2
    positive = (math.log(1 + math.exp(0 - high)) + math.log(1 + math.exp(0.5 - low))) / 2
    for direction, value in (("anchor", anchor), ("positive", positive), ("both", (anchor + positive) / 2)):
        term = Infonce(temperature=1.0, direction=direction)  # type: ignore[arg-type]
        assert term(left, right).item() == pytest.approx(value)


def test_what_is_nearer_than_the_positive_by_a_margin_is_no_candidate():
    # Of the anchor at 0 the other positive, at 20, is nearer than its own at 60; of that at 90 it is not.
    left, right, negative = unit(0, 90), unit(60, 20), unit(65, 180)

    def value(**options: object) -> float:
        return Infonce(temperature=1.0, mask=options)(left, right, negative=negative).item()  # type: ignore[arg-type]

    cosines = {angle: math.cos(math.radians(angle)) for angle in (0, 20, 25, 30, 60, 65, 70, 90, 180)}
    first = [cosines[60], cosines[65], cosines[180]]  # 20 is masked; 65 is not, with a margin of 0
    second = [cosines[70], cosines[90]]  # at 30 and 25 degrees are nearer than its own at 70
    by_hand = [math.log(sum(map(math.exp, each))) - each[0] for each in (first, second)]
    assert value(margin=0.0) == pytest.approx(sum(by_hand) / 2)
    wider = [cosines[60], cosines[180]]  # 65 is within 0.1 of 60
    by_hand[0] = math.log(sum(map(math.exp, wider))) - wider[0]
    assert value(margin=0.1) == pytest.approx(sum(by_hand) / 2)
    # A teacher to which all texts are alike masks the other row's positive, and no hard negative.
    same = torch.ones(2, 1, 3, dtype=torch.float64)
    guided = Infonce(temperature=1.0, mask={"margin": 0.0, "teacher": True})
    whole = Infonce(temperature=1.0)
    arguments = {"left": left, "right": right, "negative": negative}
    assert guided(**arguments, left_teacher=same, right_teacher=same) == whole(**arguments)
    narrow = Infonce(temperature=1.0, mask={"margin": 0.1, "teacher": True})
    third = [[cosines[60], cosines[65], cosines[180]], [cosines[70], cosines[25], cosines[90]]]
    by_hand = [math.log(sum(map(math.exp, each))) - each[0] for each in third]
    assert narrow(**arguments, left_teacher=same, right_teacher=same).item() == pytest.approx(
        sum(by_hand) / 2
    )


def test_the_mask_is_that_of_gistembed():
    from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss

    generator = torch.Generator().manual_seed(3)
    left, right, negative = (torch.randn(16, 8, generator=generator) for _ in range(3))
    theirs = GISTEmbedLoss.__new__(GISTEmbedLoss)
    torch.nn.Module.__init__(theirs)
    theirs.temperature, theirs.margin, theirs.margin_strategy = 0.05, 0.05, "absolute"
    theirs.contrast_anchors = theirs.contrast_positives = theirs.gather_across_devices = False
    theirs.must_retokenize, theirs.cross_entropy_loss = False, torch.nn.CrossEntropyLoss()
    theirs.similarity_fct = torch.nn.CosineSimilarity(dim=-1)

    class Embeds(torch.nn.Module):
        def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
            return {**features, "sentence_embedding": features["vectors"]}

    theirs.model = theirs.guide = Embeds()
    features = [{"vectors": one, "input_ids": torch.zeros(16, 1)} for one in (left, right, negative)]
    expected = theirs(features, torch.empty(0))
    value = Infonce(temperature=0.05, mask={"margin": 0.05})(left, right, negative=negative)
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5)


def test_margins_follow_those_of_the_teacher():
    # dot products 2, 0.5 and -1, 1; the second row has one negative
    left = torch.tensor([[1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    right, first, second = (torch.tensor([[a, 0.0], [b, 0.0]]) for a, b in ((2, -1), (0.5, 1), (0, 9)))
    scores = torch.tensor([[3.0, 1.0, 2.0], [0.5, 0.0, math.nan]])
    value = MarginMse()(left, right, scores, negative_1=first, negative_2=second)
    # gaps: (1.5 - 2), (2 - 1), (-2 - 0.5)
    assert value.item() == pytest.approx((0.25 + 1 + 6.25) / 3)
    value.backward()
    # 2 / 3 of each gap times the difference of the texts: 1.5 and 2; -2
    assert left.grad is not None
    assert left.grad[:, 0].tolist() == pytest.approx([2 / 3 * (-0.5 * 1.5 + 1 * 2), 2 / 3 * -2.5 * -2])


def test_a_distribution_over_the_texts_follows_that_of_the_teacher():
    left, right = unit(0).requires_grad_(), unit(60)
    scores = torch.tensor([[math.log(3.0), 0.0, math.nan]])
    value = Kl(temperature=0.5)(left, right, scores, negative_1=unit(90), negative_2=unit(0))
    q = 1 / (1 + math.exp(-1))  # of logits 1 and 0
    assert value.item() == pytest.approx(0.75 * math.log(0.75 / q) + 0.25 * math.log(0.25 / (1 - q)))
    value.backward()
    # the gradient at the logits is q - p, and the angle turns the cosines by sin 60 and sin 90 over 0.5
    assert left.grad is not None
    expected = 2 * ((q - 0.75) * math.sin(math.radians(60)) + (0.75 - q) * 1)
    assert left.grad[0, 1].item() == pytest.approx(expected)
    dot = Kl(temperature=1.0, similarity="dot")(2 * unit(0), right, scores[:, :2], negative=unit(90))
    assert dot.item() == pytest.approx(value.item())


def test_texts_of_a_class_are_found_among_all_others():
    # at 0 and 60 of one class, at 90 of another: the latter has no positive
    text, category = unit(0, 60, 90).requires_grad_(), torch.tensor([4, 4, 1])
    value = Supcon(temperature=1.0)(text, category)
    alike, first, second = 0.5, 0.0, math.cos(math.radians(30))
    by_hand = [math.log(1 + math.exp(other - alike)) for other in (first, second)]
    assert value.item() == pytest.approx(sum(by_hand) / 2)
    value.backward()
    assert text.grad is not None
    # The third is pushed from each by half of its share there times the sine of their angle.
    shares = [math.exp(other) / (math.exp(other) + math.exp(alike)) for other in (first, second)]
    tangent = torch.tensor([-1.0, 0.0], dtype=torch.float64)  # at 90 degrees, to greater angles
    assert (text.grad[2] @ tangent).item() == pytest.approx(-(shares[0] * 1 + shares[1] * 0.5) / 2)
    # A second pass of each text is a positive of the third as well.
    assert Supcon()(text, category, text).isfinite()


def test_two_classes_are_whether_a_score_is_above_zero():
    term = SoftmaxNli(classes=2, dim=1).double()
    with torch.no_grad():
        term.classifier.weight.copy_(torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
        term.classifier.bias.zero_()
    left, right = torch.tensor([[0.0], [0.0]]).double(), torch.tensor([[1.0], [3.0]]).double()
    value = term(left, right, score=torch.tensor([1.0, 0.0]))
    assert value.item() == pytest.approx((math.log(1 + math.exp(-1)) + math.log(1 + math.exp(3))) / 2)
    assert value == term(left, right, label=torch.tensor([1, 0]))
    assert term.idle(8, torch.tensor([0, 1, 2])) == "a training row has the label 2, and classes is 2"
