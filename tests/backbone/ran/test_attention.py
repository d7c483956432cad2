import math

import pytest
import torch

from embedrun.backbone.ran.layers import Gate, attend, rotate, turns


def test_a_pair_of_dimensions_turns_by_its_place_and_slower_the_later_it_stands():
    angles = turns(3, 4, torch.device("cpu"))
    torch.testing.assert_close(angles, torch.tensor([[0, 0], [1, 0.01], [2, 0.02]]))
    turned = rotate(torch.tensor([[1.0, 0, 0, 1]]).expand(1, 1, 3, 4), angles)[0, 0]
    expected = [[math.cos(t), math.sin(t), -math.sin(t / 100), math.cos(t / 100)] for t in range(3)]
    torch.testing.assert_close(turned, torch.tensor(expected))


def test_the_product_of_two_turned_vectors_depends_on_their_distance_alone():
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64).expand(2, 1, 1, 9, 8)
    angles = turns(9, 8, query.device)
    scores = (rotate(query, angles) @ rotate(key, angles).transpose(-2, -1))[0, 0]
    torch.testing.assert_close(scores[3, 1], scores[8, 6], atol=1e-5, rtol=0)
    assert (scores[3, 1] - scores[1, 3]).abs() > 1e-3


def test_a_gate_is_half_open_where_its_weights_are_zero():
    gate = Gate(2)
    torch.nn.init.eye_(gate.linear.weight)
    for weight in (gate.linear.bias, gate.gate.weight, gate.gate.bias):
        torch.nn.init.zeros_(weight)
    torch.testing.assert_close(gate(torch.tensor([3.0, -4.0])), torch.tensor([1.5, -2.0]))


@pytest.mark.parametrize("fused", [True, False])
def test_attention_is_the_mean_of_the_values_seen_weighted_by_the_softmax_of_scaled_products(fused):
    query = torch.tensor([[[[2 * math.log(3), 0.0, 0, 0]]]])  # one query of size 4: products are halved
    key = torch.tensor([[[[1.0, 0, 0, 0], [0, 1, 0, 0], [9, 9, 9, 9]]]])  # weights 3 : 1 : hidden
    value = torch.tensor([[[[4.0, 0, 0, 0], [0, 8, 0, 0], [1, 1, 1, 1]]]])
    mask = torch.tensor([True, True, False])[None, None, None]
    found = attend(query, key, value, mask, p=0.0, fused=fused)
    torch.testing.assert_close(found, torch.tensor([[[[3.0, 2, 0, 0]]]]))
