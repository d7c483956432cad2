import doctest
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from minilm import minilm_folder
from safetensors.torch import save_file
from small_models import put

from embedrun.backbone import packed, transformer
from embedrun.config import BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError
from embedrun.pooling import LEGACY, POOLINGS
from embedrun.prompts import Prompt

TEXTS = ["a dog runs fast over the wide green hill", "a cat", "dogs", "a cat sits", "the hill is green"]
SHAPE = ScratchConfig(vocabulary=100, layers=2, width=16, heads=2, positions=12)


def tiny(pooling=None, seed=1, **changes):
    backbone = BackboneConfig(name=None, scratch=SHAPE, **changes)
    return Encoder.build(backbone, pooling or PoolingConfig(), seed=seed, vocabulary_texts=TEXTS)


@pytest.fixture(scope="module")
def minilm():
    return Encoder.load(minilm_folder())


def test_minilm_gives_the_vectors_of_its_published_recipe(minilm):
    # Mean over real tokens, then length 1, all texts in one padded pass.
    backbone = minilm.backbone
    inputs = backbone.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        tokens = backbone.model(**inputs).last_hidden_state
    weight = inputs["attention_mask"].unsqueeze(-1)
    means = (tokens * weight).sum(1) / weight.sum(1)
    expected = means / means.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(minilm.encode(TEXTS), expected.numpy(), rtol=0, atol=1e-6)
    assert minilm.normalize


def test_files_that_contradict_themselves_are_named(tmp_path):
    tiny().save(tmp_path)
    own = json.loads((tmp_path / "embedrun.json").read_text())
    (tmp_path / "embedrun.json").write_text(json.dumps(own | {"padded_to": 8}))
    with pytest.raises(DataError, match=r"contradicts itself: .*padded_to: only pooling\.name="):
        Encoder.load(tmp_path)


def made_up(count):
    """Sentences of 1 to 20 words, no two alike."""
    words = ["the", "old", "dog", "runs", "over", "a", "green", "hill", "and", "sleeps"]
    drawn = np.random.default_rng(0)
    lengths = np.minimum(drawn.geometric(0.25, count), 20)
    return [" ".join(drawn.choice(words, length)) + f" {row}" for row, length in enumerate(lengths)]


def test_vectors_of_many_texts_do_not_depend_on_batch_or_packing(minilm, monkeypatch):
    texts = made_up(60)
    monkeypatch.setattr(packed, "WORTH", 400)  # a batch of 256 tokens is not packed
    assert len(minilm.backbone.tokenize(texts).ids) > packed.WORTH
    monkeypatch.setitem(transformer._ENOUGH, "cpu", 10**9)
    whole = minilm.encode(texts)
    np.testing.assert_allclose(minilm.encode(texts, batch_tokens=256), whole, rtol=0, atol=1e-5)
    monkeypatch.setattr(packed, "available", lambda dtype: False)
    np.testing.assert_allclose(minilm.encode(texts), whole, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def light():
    """The same, never asked for the model of transformers, whose layers are computed one by one."""
    return Encoder.load(minilm_folder())


@pytest.fixture
def two_threads(monkeypatch):
    """Two threads that take a pass each, of one text or a few."""
    monkeypatch.setattr(packed, "WORTH", 1)
    monkeypatch.setitem(transformer._ENOUGH, "cpu", 16)
    before, running = torch.get_num_threads(), threading.active_count()
    torch.set_num_threads(2)
    yield
    assert threading.active_count() == running
    assert torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as new:
        assert new.submit(torch.get_num_threads).result() == 2
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_threads_with_passes_of_their_own_give_the_same_bytes_in_the_same_order(light, monkeypatch):
    names, done, computed = set(), [], light.backbone._run

    def run(*given):
        names.add(threading.current_thread().name)
        return computed(*given)

    texts = made_up(12)
    monkeypatch.setattr(light.backbone, "_run", run)
    two = light.encode(texts, progress=lambda i, n: done.append(i))
    assert threading.main_thread().name not in names
    assert done == sorted(done)
    assert done[-1] == 12
    torch.set_num_threads(1)
    assert np.array_equal(light.encode(texts), two)
    assert threading.main_thread().name in names
    torch.set_num_threads(2)


@pytest.mark.usefixtures("two_threads")
def test_what_stops_one_pass_stops_all_threads(light, monkeypatch):
    calls, computed = [], light.backbone._run

    def run(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return computed(*given)

    monkeypatch.setattr(light.backbone, "_run", run)
    with pytest.raises(KeyboardInterrupt):
        light.encode(made_up(60))
    assert len(calls) < 40
    assert not any("forward" in vars(module) for module in light.modules())


@pytest.mark.parametrize("worth", [1, 10**9])
def test_bfloat16_is_close_and_gives_float32_vectors_packed_or_not(minilm, worth, monkeypatch):
    monkeypatch.setattr(packed, "WORTH", worth)
    exact, rounded = minilm.encode(TEXTS), minilm.encode(TEXTS, precision="bf16")
    assert rounded.dtype == np.float32
    assert not np.array_equal(rounded, exact)
    np.testing.assert_allclose((rounded * exact).sum(1), 1, atol=1e-3)  # the cosine of both


def test_weights_changed_between_two_calls_give_new_vectors(monkeypatch):
    monkeypatch.setattr(packed, "WORTH", 1)
    encoder = tiny()
    before = encoder.encode(TEXTS)
    layer = encoder.backbone.model.encoder.layer[1].output.dense
    with torch.no_grad():
        layer.weight.add_(torch.linspace(0, 1, layer.weight.numel()).reshape(layer.weight.shape))
    after = encoder.encode(TEXTS)
    assert abs(after - before).max() > 0.01
    monkeypatch.setattr(packed, "WORTH", 10**9)
    np.testing.assert_allclose(encoder.encode(TEXTS), after, rtol=0, atol=1e-6)


def test_a_repeated_text_is_computed_once_and_given_at_every_place():
    encoder = tiny()
    done = []
    vectors = encoder.encode(
        ["a cat", "dogs", "a cat"], batch_tokens=1, progress=lambda i, n: done.append((i, n))
    )
    assert done == [(1, 2), (2, 2)]
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])
    assert vectors.dtype == np.float32


def test_one_text_gives_one_vector():
    encoder = tiny()
    alone = encoder.encode("a cat")
    assert alone.shape == (16,)
    assert np.array_equal(alone, encoder.encode(["a cat"])[0])


def test_a_pass_has_at_most_batch_size_texts_and_batch_tokens_tokens():
    for limits, passes in [
        ({"batch_size": 2}, [2, 4, 5]),
        ({"batch_size": 2, "batch_tokens": 1}, [1, 2, 3, 4, 5]),
        ({"batch_size": 9, "batch_tokens": 10_000}, [5]),
        ({"batch_size": 9}, [5]),
    ]:
        done = []
        tiny().encode(
            ["dogs", "cat", "hill", "a", "b"], **limits, progress=lambda i, n, done=done: done.append(i)
        )
        assert done == passes


def test_normalize_embeddings_gives_length_1_to_a_model_that_does_not_scale():
    encoder = tiny(PoolingConfig(normalize=False))
    plain, unit = encoder.encode(TEXTS), encoder.encode(TEXTS, normalize_embeddings=True)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)  # (texts, 1)
    assert (abs(lengths - 1) > 0.01).all()
    np.testing.assert_allclose(unit, plain / lengths, rtol=0, atol=1e-6)
    scaled = tiny(PoolingConfig(normalize=True)).encode(TEXTS, scaled=False, normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1, atol=1e-6)


def test_similarity_is_the_matrix_of_cosines():
    left, right = np.array([[3.0, 0.0], [0.0, 2.0]]), np.array([[4.0, 3.0], [0.0, 0.0], [-1.0, 0.0]])
    found = tiny().similarity(left, right)  # (2, 3)
    torch.testing.assert_close(found, torch.tensor([[0.8, 0.0, -1.0], [0.6, 0.0, 0.0]]))


def test_encoding_has_no_dropout_draws_no_random_number_and_leaves_training_mode():
    encoder = tiny()
    assert encoder.training
    before = torch.get_rng_state()
    first, again = encoder.encode(TEXTS), encoder.encode(TEXTS)
    assert np.array_equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)
    assert encoder.training
    assert not np.array_equal(encoder(tokens(encoder)).detach().numpy(), first)  # dropout is on here


def test_encoding_is_float32_inside_an_autocast():
    encoder = tiny()
    outside = encoder.encode(TEXTS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(encoder.encode(TEXTS), outside)
        assert encoder(tokens(encoder)).dtype == torch.float32


def tokens(encoder):
    return encoder.backbone.tokenize(TEXTS).take(np.arange(len(TEXTS)))


def test_forward_gives_the_vectors_of_encode_with_a_gradient():
    encoder = tiny(PoolingConfig(normalize=True)).eval()
    vectors = encoder(tokens(encoder))
    np.testing.assert_allclose(vectors.detach().numpy(), encoder.encode(TEXTS), rtol=0, atol=1e-6)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(TEXTS)))
    vectors[:, 0].sum().backward()
    trained = {name for name, weight in encoder.named_parameters() if weight.grad is not None}
    assert trained == {name for name, weight in encoder.named_parameters() if weight.requires_grad}


@pytest.mark.parametrize("name", POOLINGS)
def test_a_saved_encoder_comes_back_the_same(name, tmp_path):
    normalize = name in ("cls", "mean", "cls_mlp")
    pooling = PoolingConfig(
        name=name,
        normalize=normalize,
        first_layer=1 if name == "first_last_mean" else None,
        padded_to=5 if name in LEGACY else None,
        keep_head=name == "cls_mlp",
    )
    saved = tiny(pooling, max_length=6)
    saved.save(tmp_path / "m")
    loaded = Encoder.load(tmp_path / "m")
    assert loaded.pooling == saved.pooling
    assert loaded.normalize == normalize
    assert loaded.backbone.max_length == 6
    assert not loaded.training
    np.testing.assert_allclose(loaded.encode(TEXTS), saved.encode(TEXTS), rtol=0, atol=1e-7)


def test_training_starts_from_the_model_of_a_run_directory(tmp_path):
    saved = tiny(PoolingConfig(name="cls"))
    saved.save(tmp_path / "model")
    (tmp_path / "results.json").write_text("{}")
    (tmp_path / "status.json").write_text('{"state": "finished"}')
    warm = Encoder.build(BackboneConfig(name=str(tmp_path)), PoolingConfig(), seed=9)
    assert warm.pooling.name == "cls"
    assert warm.backbone.origin == {"name": str(tmp_path), "commit": None}
    assert np.array_equal(warm.encode(TEXTS), saved.encode(TEXTS))


def test_a_pooling_named_in_the_configuration_wins_and_keeps_the_normalisation_of_the_files():
    config = BackboneConfig(name=str(minilm_folder()))
    kept = Encoder.build(config, PoolingConfig(name="cls"), seed=0)
    assert (kept.pooling.name, kept.normalize) == ("cls", True)
    free = Encoder.build(config, PoolingConfig(normalize=False), seed=0)
    assert (free.pooling.name, free.normalize) == ("mean", False)


def declare(folder, kinds, pooling):
    """A plain model folder with files that sentence-transformers writes."""
    tiny().save(folder)
    (folder / "embedrun.json").unlink()
    modules = [{"idx": i, "path": f"{i}_{kind}" if i else "", "type": kind} for i, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def test_a_pooling_that_is_not_ours_is_refused_and_ours_are_named(tmp_path):
    declare(tmp_path, ["Transformer", "Pooling"], {"pooling_mode": "mean_sqrt_len_tokens"})
    with pytest.raises(
        ConfigError, match=r"'mean_sqrt_len_tokens'.*cls, pooler, cls_mlp, mean, max, last_token"
    ):
        Encoder.load(tmp_path)
    assert Encoder.build(BackboneConfig(name=str(tmp_path)), PoolingConfig(name="max"), seed=0).dim == 16


@pytest.mark.parametrize("name", LEGACY)
def test_the_legacy_poolings_pad_every_text_alike_and_warn(name, capsys):
    encoder = tiny(PoolingConfig(name=name, padded_to=7))
    assert f"warning: pooling.name={name} averages over padding, up to 7" in capsys.readouterr().err
    whole = encoder.encode(TEXTS)
    for batch_tokens in (1, 20):
        np.testing.assert_allclose(encoder.encode(TEXTS, batch_tokens=batch_tokens), whole, rtol=0, atol=1e-6)
    trained = encoder.eval()(tokens(encoder)).detach().numpy()
    np.testing.assert_allclose(trained, whole, rtol=0, atol=1e-6)


def test_a_layer_that_is_not_ours_is_refused_unless_a_pooling_is_chosen(tmp_path):
    declare(tmp_path, ["Transformer", "Pooling", "Dense"], {"pooling_mode": "mean"})
    with pytest.raises(ConfigError, match="Dense, which"):
        Encoder.load(tmp_path)
    assert Encoder.build(BackboneConfig(name=str(tmp_path)), PoolingConfig(name="mean"), seed=0).dim == 16


def test_the_example_of_encode_is_true():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    (example,) = finder.find(Encoder.encode, "encode", globs={"folder": minilm_folder()})
    assert tuple(runner.run(example)) == (0, 7)  # failed, attempted


PROMPT = Prompt("the {text} hill", "angle_llm")


def test_encode_puts_texts_into_the_prompt_and_training_gives_its_own_tokens():
    plain, prompted = tiny(), tiny()
    prompted.use(PROMPT)
    expected = plain.encode(["the a cat. hill", "the dogs. hill"])
    np.testing.assert_allclose(prompted.encode(["a cat", "dogs?"]), expected, rtol=0, atol=1e-7)
    assert np.array_equal(prompted.tokenize(["a cat"]).ids, plain.tokenize(["the a cat. hill"]).ids)
    assert np.array_equal(tokens(prompted).ids, tokens(plain).ids)


def test_a_prompt_is_that_of_the_configuration_else_that_of_the_files(tmp_path):
    saved = tiny(prompt=PROMPT.template)
    assert saved.prompt == Prompt(PROMPT.template)
    saved.use(PROMPT)
    saved.save(tmp_path)
    assert Encoder.load(tmp_path).prompt == PROMPT
    np.testing.assert_allclose(Encoder.load(tmp_path).encode(TEXTS), saved.encode(TEXTS), rtol=0, atol=1e-7)
    for template, prompt in (("a {text}", Prompt("a {text}")), ("{text}", None)):
        config = BackboneConfig(name=str(tmp_path), prompt=template)
        assert Encoder.build(config, PoolingConfig(), seed=0).prompt == prompt


@pytest.mark.parametrize("pooling", ["mean", "cls_mlp"])
def test_vectors_of_inner_layers_stand_before_those_of_the_last(pooling):
    config = PoolingConfig(name=pooling, normalize=True)
    encoder = Encoder.build(BackboneConfig(name=str(minilm_folder())), config, seed=0).eval()
    texts = encoder.tokenize(["a dog runs", "two cats sit there"]).take(np.arange(2))
    last = encoder(texts)
    encoder.layers_every = 1
    both = encoder(texts)
    assert both.shape == (2, encoder.backbone.model.config.num_hidden_layers * encoder.dim)
    torch.testing.assert_close(both[:, -encoder.dim :], last)
    cut = Encoder.build(BackboneConfig(name=str(minilm_folder()), layers=1), config, seed=0).eval()
    torch.testing.assert_close(both[:, : encoder.dim], cut(texts))


def test_dense_layers_behind_the_pooling_are_those_of_sentence_transformers(tmp_path: Path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling as TheirPooling

    torch.manual_seed(0)
    base = put(tmp_path / "base", "bert")
    words = Transformer(str(base))
    layers = [Dense(16, 24, bias=False, activation_function=torch.nn.Identity()), Dense(24, 8)]
    model = SentenceTransformer(modules=[words, TheirPooling(16, "mean"), *layers, Normalize()])
    model.save(str(tmp_path / "theirs"))
    texts = ["a dog runs", "the happy cat", "a little dog ran fast over the hill"]
    ours = Encoder.load(tmp_path / "theirs")
    assert ours.dim == 8
    np.testing.assert_allclose(ours.encode(texts), model.encode(texts), atol=1e-6)
    trained = ours(ours.tokenize(texts).take(np.arange(3))).detach()
    np.testing.assert_allclose(trained, ours.encode(texts), atol=1e-6)
    ours.save(tmp_path / "ours")
    np.testing.assert_array_equal(Encoder.load(tmp_path / "ours").encode(texts), ours.encode(texts))
    again = SentenceTransformer(str(tmp_path / "ours"))
    np.testing.assert_allclose(again.encode(texts), ours.encode(texts), atol=1e-6)
    weights = tmp_path / "theirs" / "2_Dense" / "model.safetensors"
    save_file({"linear.weight": torch.zeros(24, 15)}, weights)
    with pytest.raises(DataError, match="not a layer for 16 dimensions"):
        Encoder.load(tmp_path / "theirs")
