"""One layer of a RAN: windows, gate, rotary positions, attention, review."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import layer_norm, silu

from embedrun.backbone.ran import RanLayer, cut, rotate, turns


@pytest.fixture
def layer(config):
    """A layer in float64, in evaluation mode, with large random weights, biases and norms."""

    def make(**changes) -> RanLayer:
        torch.manual_seed(3)
        layer = RanLayer(config(**changes), 1).double().eval()
        for weight in layer.parameters():
            torch.nn.init.normal_(weight, std=0.4)
        return layer

    return make


def windows_of(lengths: list[int]):
    return cut(np.array(lengths), window=8, min_window=3)


def inputs(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(4)
    return torch.randn(1, tokens, 16).double(), torch.randn(1, 16).double()


def norm(weights, vectors):
    return layer_norm(vectors, (16,), weights.weight, weights.bias, eps=1e-6)


def gated(gate, vectors):
    return gate.linear(vectors) * torch.sigmoid(gate.gate(vectors))


def plain_window(layer, tokens, cell):
    """Standardised cell and outputs of one window, by plain attention, head by head: (1 + tokens, dim)."""
    attention = layer.attention
    joined = norm(layer.window_norm, torch.cat([cell, tokens[0]]))  # (1 + tokens, 16)
    heads = []
    for head in range(2):
        own = slice(6 * head, 6 * head + 6)
        query, key, value = (
            silu(joined @ linear.weight[own].T + linear.bias[own])
            for linear in (attention.query, attention.key, attention.value)
        )
        angle = torch.arange(len(joined))[:, None] * 10000 ** (-torch.arange(3) / 3)  # (1 + tokens, 3)
        turn = torch.polar(torch.ones_like(angle), angle)
        query, key = (
            torch.view_as_real(torch.view_as_complex(part.unflatten(1, (3, 2))) * turn).flatten(1)
            for part in (query, key)
        )
        heads.append((query @ key.T / 6**0.5).softmax(dim=1) @ value)
    mixed = silu(attention.output(torch.cat(heads, dim=1)))
    found = norm(attention.norm, mixed + gated(attention.gate, joined))
    return layer_norm(found, (16,), eps=1e-6)


def plain_review(review, outputs, memory):
    query, key, value = (
        silu(linear(part))
        for linear, part in ((review.query, outputs), (review.key, memory), (review.value, memory))
    )
    seen = (query @ key.T / 16**0.5).softmax(dim=1) @ value
    return norm(review.norm, silu(review.output(seen)) + gated(review.gate, query))


def test_windows_are_joined_by_the_cell_and_the_review_as_written_out(layer):
    ours, (vectors, first) = layer(), inputs(21)
    one = plain_window(ours, vectors[:, :8], first)
    two = plain_window(ours, vectors[:, 8:16], one[:1])
    carried = norm(ours.carry_norm, two[:1] + gated(ours.carry_gate, one[:1]))
    three = plain_window(ours, vectors[:, 16:], carried)
    last = norm(ours.carry_norm, three[:1] + gated(ours.carry_gate, two[:1]))
    outputs = torch.cat([one[1:], two[1:], three[1:]])
    memory = torch.cat([one[:1], two[:1], three[:1]])
    found, cell = ours(vectors, first, windows_of([21]))
    torch.testing.assert_close(found[0], plain_review(ours.review, outputs, memory), rtol=0, atol=1e-6)
    torch.testing.assert_close(cell, last, rtol=0, atol=1e-6)


def test_a_pair_of_dimensions_turns_by_its_place_and_slower_the_later_it_stands():
    angles = turns(3, 4, torch.device("cpu"))
    torch.testing.assert_close(angles, torch.tensor([[0, 0], [1, 0.01], [2, 0.02]]))
    turned = rotate(torch.tensor([[1.0, 0, 0, 1]]).expand(1, 1, 3, 4), angles)[0, 0]
    expected = [[math.cos(t), math.sin(t), -math.sin(t / 100), math.cos(t / 100)] for t in range(3)]
    torch.testing.assert_close(turned, torch.tensor(expected))


def parts_of(lengths: list[int], text: int) -> list[list[int]]:
    """The columns that each window of one text reads."""
    found = []
    for window in windows_of(lengths):
        if window.alive is not None and not window.alive[text]:
            continue
        every = torch.arange(window.start, window.stop)
        own = every if window.keys is None else every[window.keys[text, 0, 0, 1:]]
        found.append(own.tolist())
    return found


def test_a_short_rest_joins_the_window_before_it_and_a_longer_one_stands_alone():
    for length, sizes in [
        (1, [1]),
        (8, [8]),
        (10, [10]),
        (11, [8, 3]),
        (16, [8, 8]),
        (18, [8, 10]),
        (19, [8, 8, 3]),
    ]:
        for lengths in ([length], [length, 30, 10, 2]):  # alone, and beside others
            parts = parts_of(lengths, 0)
            assert [len(part) for part in parts] == sizes
            assert [column for part in parts for column in part] == list(range(length))
