import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from embedrun.backbone.dropout import SeededDropout
from embedrun.errors import ConfigError

CPU = torch.device("cpu")
SEEDS = torch.tensor([5, -(2**62), 5, 9])


def dropped(shape: tuple[int, ...], seeds: Tensor = SEEDS, p: float = 0.5, calls: int = 1) -> Tensor:
    with SeededDropout(seeds, CPU):
        for _ in range(calls):
            found = functional.dropout(torch.ones(shape), p, True)
    return found == 0


def test_what_is_dropped_depends_on_the_seed_of_the_text_alone():
    whole = dropped((4, 6, 8))
    assert torch.equal(whole[0], whole[2])  # one seed
    assert not torch.equal(whole[0], whole[1])
    assert torch.equal(dropped((1, 6, 8), SEEDS[1:2])[0], whole[1])


def test_padding_behind_a_text_changes_nothing():
    assert torch.equal(dropped((4, 9, 8))[:, :6], dropped((4, 6, 8)))
    wide, narrow = dropped((4, 2, 9, 9)), dropped((4, 2, 6, 6))  # attention: heads, queries, keys
    assert torch.equal(wide[:, :, :6, :6], narrow)


def test_masks_are_those_of_every_version_before():
    # A run that is resumed, or repeated from its seed, must drop what it dropped when this was written.
    assert dropped((4, 8), calls=2).int().tolist() == [
        [0, 1, 1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 1, 0, 1, 1],
        [0, 1, 1, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 1, 0, 1, 0],
    ]


def test_the_share_is_the_probability_in_every_direction():
    for p in [0.01, 0.1, 0.5, 0.9]:
        found = dropped((200, 40, 50), torch.arange(200), p).double()
        deviation = (p * (1 - p)) ** 0.5
        for axes, count in (((0, 1, 2), 400_000), ((1, 2), 2000), ((0, 2), 10_000), ((0, 1), 8000)):
            z = (found.mean(axes) - p) / deviation * count**0.5
            assert z.abs().max() < 5
        # Neighbours are no more alike than any two, within a text, along a vector and across seeds one apart.
        for one, other in (
            (found[1:], found[:-1]),
            (found[:, 1:], found[:, :-1]),
            (found[:, :, 1:], found[:, :, :-1]),
        ):
            correlation = ((one - p) * (other - p)).mean() / deviation**2
            assert correlation.abs() * one.numel() ** 0.5 < 5


def test_what_stays_is_scaled_up_and_has_that_gradient():
    vectors = torch.full((4, 30), 2.0, requires_grad=True)
    with SeededDropout(SEEDS, CPU):
        found = nn.Dropout(0.2)(vectors)
    found.sum().backward()
    assert set(found.unique().tolist()) == {0.0, 2.5}
    assert vectors.grad is not None
    assert torch.equal(vectors.grad, (found > 0) * 1.25)


def test_attention_without_a_drop_is_that_of_torch():
    for causal, masked in [(False, None), (True, None), (False, "bool"), (False, "float")]:
        generator = torch.Generator().manual_seed(1)
        query, key, value = torch.randn(3, 4, 2, 5, 6, dtype=torch.float64, generator=generator)
        mask = None if masked is None else torch.rand(4, 1, 1, 5, generator=generator) > 0.3
        mask = mask.double().log() if masked == "float" and mask is not None else mask
        expected = functional.scaled_dot_product_attention(query, key, value, mask, 0.0, causal)
        with SeededDropout(SEEDS, CPU):
            # So small a probability drops nothing among so few, and goes the long way.
            found = functional.scaled_dot_product_attention(query, key, value, mask, 1e-9, causal)
            straight = functional.scaled_dot_product_attention(query, key, value, mask, 0.0, causal)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
        assert torch.equal(straight, expected)


def test_attention_with_fewer_heads_of_keys_repeats_them():
    generator = torch.Generator().manual_seed(2)
    query = torch.randn(4, 4, 5, 6, dtype=torch.float64, generator=generator)
    key, value = torch.randn(2, 4, 2, 5, 6, dtype=torch.float64, generator=generator)
    expected = functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    with SeededDropout(SEEDS, CPU):
        found = functional.scaled_dot_product_attention(query, key, value, dropout_p=1e-9, enable_gqa=True)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_a_model_that_draws_random_numbers_in_another_way_is_refused():
    for draw in [
        lambda: torch.rand(3),
        lambda: torch.randperm(9),
        lambda: functional.dropout1d(torch.ones(4, 8)),
    ]:
        with (
            pytest.raises(ConfigError, match="this model draws its own random numbers"),
            SeededDropout(SEEDS, CPU),
        ):
            draw()


def test_a_model_that_does_not_keep_texts_apart_is_refused():
    with pytest.raises(ConfigError, match="a pass of 4 texts"), SeededDropout(SEEDS, CPU):
        functional.dropout(torch.ones(24, 8), 0.5, True)


def test_a_token_that_sees_nothing_gets_nothing_as_in_torch():
    query, key, value = torch.ones(3, 4, 1, 2, 6)
    mask = torch.tensor([[True, False], [False, False]])  # the second token sees no token
    expected = functional.scaled_dot_product_attention(query, key, value, mask)
    with SeededDropout(SEEDS, CPU):
        found = functional.scaled_dot_product_attention(query, key, value, mask, 1e-9)
    torch.testing.assert_close(found, expected)
    assert found[:, :, 1].count_nonzero() == 0


def test_attention_in_float16_does_not_overflow_where_that_of_torch_does_not():
    query = key = torch.full((4, 1, 2, 128), 24.0, dtype=torch.float16)  # 24 * 24 * 128 is above 65,504
    value = torch.ones(4, 1, 2, 128, dtype=torch.float16)
    with SeededDropout(SEEDS, CPU):
        found = functional.scaled_dot_product_attention(query, key, value, dropout_p=1e-9)
    assert torch.equal(found, value)
