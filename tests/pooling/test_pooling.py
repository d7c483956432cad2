import pytest
import torch

from embedrun.config import PoolingConfig
from embedrun.pooling import LEGACY, POOLINGS, Pooling, problems

# One text of two real tokens, one of three; two dimensions; 9 stands where padding is.
FIRST = [[1.0, 2.0], [3.0, -4.0]]
SECOND = [[-3.0, -6.0], [0.0, -3.0], [6.0, -3.0]]
PADDING = [9.0, 9.0]
RIGHT = (torch.tensor([[*FIRST, PADDING], SECOND]), torch.tensor([[1, 1, 0], [1, 1, 1]]))
LEFT = (torch.tensor([[PADDING, *FIRST], SECOND]), torch.tensor([[0, 1, 1], [1, 1, 1]]))

BY_HAND = {
    "cls": [[1.0, 2.0], [-3.0, -6.0]],
    "pooler": [[1.0, 2.0], [-3.0, -6.0]],  # the layer behind it is the encoder's
    "cls_mlp": [[1.0, 2.0], [-3.0, -6.0]],
    "mean": [[2.0, -1.0], [1.0, -4.0]],
    "max": [[3.0, 2.0], [6.0, -3.0]],
    "last_token": [[3.0, -4.0], [6.0, -3.0]],
    "weighted_mean": [[7 / 3, -2.0], [2.5, -3.5]],  # (1 + 2 x 3) / 3, (-3 + 2 x 0 + 3 x 6) / 6, ...
    "cls_last_mean": [[1.5, 0.5], [-1.0, -5.0]],
    "cls_max": [[2.0, 2.0], [1.5, -4.5]],
}
# By the tokens that texts are padded to.
LEGACY_BY_HAND = {
    ("mean_padded_legacy", 3): [[13 / 3, 7 / 3], [1.0, -4.0]],  # (1 + 3 + 9) / 3, (2 - 4 + 9) / 3
    ("mean_padded_legacy", 2): [[2.0, -1.0], [1.0, -4.0]],
    ("cls_last_mean_padded_legacy", 3): [[8 / 3, 13 / 6], [-1.0, -5.0]],
    ("cls_last_mean_padded_legacy", 1): [[1.5, 0.5], [-1.0, -5.0]],
}


def any_of(name):
    """A pooling of this name."""
    return Pooling(name, 0 if name == "first_last_mean" else None, 3 if name in LEGACY else None)


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("side", [RIGHT, LEFT], ids=["right", "left"])
def test_padding_on_either_side_leaves_the_vector_worked_out_by_hand(name, side):
    tokens, mask = side
    torch.testing.assert_close(Pooling(name)((tokens,), mask), torch.tensor(BY_HAND[name]))


@pytest.mark.parametrize(("name", "padded_to"), LEGACY_BY_HAND)
@pytest.mark.parametrize("side", [RIGHT, LEFT], ids=["right", "left"])
@pytest.mark.parametrize("more", [0, 5])
def test_a_legacy_pooling_counts_padding_up_to_its_length_and_no_further(name, padded_to, side, more):
    tokens, mask = side
    before, behind = (more, 0) if side is LEFT else (0, more)
    tokens = torch.nn.functional.pad(tokens, (0, 0, before, behind), value=100.0)
    mask = torch.nn.functional.pad(mask, (before, behind))
    expected = torch.tensor(LEGACY_BY_HAND[name, padded_to])
    torch.testing.assert_close(Pooling(name, padded_to=padded_to)((tokens,), mask), expected)


def test_a_legacy_pooling_refuses_texts_that_are_padded_too_little():
    with pytest.raises(ValueError, match="padded to 3 tokens have no mean over 4"):
        Pooling("mean_padded_legacy", padded_to=4)((RIGHT[0],), RIGHT[1])


def test_only_the_legacy_poolings_warn_of_their_use():
    assert {name for name in POOLINGS if any_of(name).warning} == set(LEGACY)
    assert "up to 3 tokens" in any_of("mean_padded_legacy").warning


@pytest.mark.parametrize("side", [RIGHT, LEFT], ids=["right", "left"])
@pytest.mark.parametrize(("first_layer", "factor"), [(0, 3.0), (1, 5.0)])
def test_first_last_mean_takes_the_layer_that_is_asked_for(side, first_layer, factor):
    tokens, mask = side
    layers = (3 * tokens, 5 * tokens, 7 * tokens, tokens)
    expected = torch.tensor(BY_HAND["mean"]) * (factor + 1) / 2
    torch.testing.assert_close(Pooling("first_last_mean", first_layer)(layers, mask), expected)


@pytest.mark.parametrize("name", POOLINGS)
def test_the_list_of_poolings_names_each_one_that_can_be_made(name):
    assert any_of(name).all_layers == (name == "first_last_mean")


def test_every_pooling_is_worked_out_by_hand():
    assert {*BY_HAND, *(name for name, _ in LEGACY_BY_HAND), "first_last_mean"} == set(POOLINGS)


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_tokens_give_float32_vectors(name, kind):
    tokens = RIGHT[0].to(kind)  # whole numbers, exact in either
    vectors = any_of(name)((tokens, tokens), RIGHT[1])
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors, any_of(name)((RIGHT[0], RIGHT[0]), RIGHT[1]))


@pytest.fixture(scope="module")
def bert():
    from transformers import BertConfig, BertModel

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=20,
        )
        return BertModel(config).eval()


@pytest.mark.parametrize("name", [name for name in POOLINGS if name not in LEGACY])
def test_a_model_gives_one_vector_whichever_side_is_padded(name, bert):
    texts = [[7, 3, 9], [5], [11, 4, 2, 8, 6]]
    found = []
    for left in (False, True):
        empty = [[0] * (5 - len(text)) for text in texts]
        rows = [pad + text if left else text + pad for text, pad in zip(texts, empty, strict=True)]
        ids = torch.tensor(rows)
        mask = (ids > 0).long()
        # Real tokens keep their positions, as models that count them by the mask see to.
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            output = bert(ids, attention_mask=mask, position_ids=positions, output_hidden_states=True)
        found.append(any_of(name)(output.hidden_states, mask))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-6)


def test_half_precision_tokens_are_summed_in_float32():
    # In float16 a sum of 4096 ones and more stops growing at 2048.
    tokens = torch.ones(1, 4096, 1, dtype=torch.float16)
    vector = Pooling("mean")((tokens,), torch.ones(1, 4096, dtype=torch.int64))
    assert vector.dtype == torch.float32
    assert vector.item() == 1.0


def test_no_gradient_reaches_padding():
    for name in BY_HAND:
        tokens = RIGHT[0].clone().requires_grad_()
        Pooling(name)((tokens,), RIGHT[1]).sum().backward()
        assert tokens.grad is not None
        assert tokens.grad[0, 2].abs().sum() == 0
        assert tokens.grad[0, :2].abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "first_layer", "says"),
    [
        ("meen", None, "did you mean 'mean'?"),
        ("first_last_mean", None, "needs 0"),
        ("first_last_mean", 2, "got 2"),
        ("mean", 1, "leave it null"),
        ("mean_padded_legacy", None, "needs a number of tokens"),
    ],
)
def test_options_that_do_not_fit_are_refused_alike_by_class_and_check(name, first_layer, says):
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        Pooling(name, first_layer)
    assert says in problems(PoolingConfig(name=name, first_layer=first_layer))[0]


def test_auto_is_not_a_problem_but_an_option_with_it_is():
    assert problems(PoolingConfig()) == []
    assert len(problems(PoolingConfig(first_layer=1))) == 1
    assert len(problems(PoolingConfig(first_layer=1, padded_to=9, keep_head=True))) == 3


def test_only_a_pooling_with_a_head_can_keep_one():
    assert problems(PoolingConfig(name="cls_mlp", keep_head=True)) == []
    assert "only pooling.name=cls_mlp has a head" in problems(PoolingConfig(name="cls", keep_head=True))[0]


@pytest.mark.parametrize(("name", "padded_to"), [("mean", 8), ("mean_padded_legacy", 0), ("cls", 1)])
def test_a_padded_length_that_does_not_fit_is_refused_alike_by_class_and_check(name, padded_to):
    with pytest.raises(ValueError, match=r"pooling\.padded_to"):
        Pooling(name, padded_to=padded_to)
    config = PoolingConfig(name=name, padded_to=padded_to)
    assert [fault.split(":")[0] for fault in problems(config)] == ["pooling.padded_to"]
