"""Graphs for onnxruntime, and vectors in fewer bytes."""

import json
from pathlib import Path

import numpy as np
import pytest

from embedrun.commands import encode, export
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.quantized import compared, stored

pytestmark = pytest.mark.usefixtures("_alone")

TEXTS = ["a dog runs over the hill", "Two Dogs", "a cat sits, and sits " * 60]


@pytest.mark.slow
def test_a_graph_gives_the_vectors_of_its_model_in_onnxruntime_alone(tiny, capsys):
    onnxruntime, tokenizers = (pytest.importorskip(name) for name in ("onnxruntime", "tokenizers"))
    assert export.main([str(tiny.path), "out", "--onnx", "--int8"]) == 0
    assert "the vectors of 200 texts differ by at most" in capsys.readouterr().out
    words = tokenizers.Tokenizer.from_file("out/tokenizer.json")
    words.enable_truncation(json.loads(Path("out/embedrun.json").read_text())["max_length"])
    words.enable_padding()
    read = words.encode_batch(TEXTS)
    given = {
        "input_ids": np.array([text.ids for text in read]),
        "attention_mask": np.array([text.attention_mask for text in read]),
    }
    wanted = Encoder.load(tiny.path).encode(TEXTS)
    for name, close in (("model", 1e-5), ("model_int8", 0.1)):
        graph = onnxruntime.InferenceSession(f"out/onnx/{name}.onnx", providers=["CPUExecutionProvider"])
        (vectors,) = graph.run(["sentence_embedding"], given)
        np.testing.assert_allclose(vectors, wanted, rtol=0, atol=close * np.abs(wanted).max())


def test_options_of_a_graph_need_one(tiny):
    with pytest.raises(ConfigError) as fault:
        export.main([str(tiny.path), "out", "--int8", "--check", "stsb"])
    assert fault.value.problems == [f"--{flag}: is of the graph; add --onnx" for flag in ("int8", "check")]


def test_a_model_that_has_no_graph_is_refused_with_the_reason(tiny, monkeypatch):
    def export_(*_: object, **__: object) -> None:
        raise RuntimeError("step 1 of 3") from NotImplementedError("no operator aten::odd")

    monkeypatch.setattr("torch.onnx.export", export_)
    with pytest.raises(ConfigError, match=r"BertModel cannot .* \(NotImplementedError: no op"):
        export.main([str(tiny.path), "out", "--onnx"])
    assert not Path("out").exists()


def test_vectors_are_stored_as_sentence_transformers_stores_them():
    from sentence_transformers.util import quantize_embeddings

    vectors = np.random.default_rng(0).normal(size=(50, 16)).astype(np.float32)
    for dtype in ("int8", "binary"):
        np.testing.assert_array_equal(stored(vectors, dtype), quantize_embeddings(vectors, precision=dtype))
    ranges = np.array([[-1.0] * 16, [1.0] * 16])
    theirs = quantize_embeddings(vectors, precision="int8", ranges=ranges)
    np.testing.assert_array_equal(stored(vectors, "int8", ranges), theirs)


def test_bits_are_compared_by_how_many_are_equal():
    first, second = (compared(np.array([side]), "binary") for side in ([1.0, 2, -1, 3], [5.0, -2, -1, 1]))
    assert first @ second.T == 4 - 2 * 1  # one bit of four differs


def test_a_second_file_is_stored_in_the_ranges_of_the_first(tiny):
    Path("a.txt").write_text("a dog\na cat\na long walk by the sea\n")
    Path("b.txt").write_text("a cat\n")
    options = ["--dtype", "int8", "--ranges", "ranges.npy"]
    for name in "ab":
        assert encode.main([str(tiny.path), f"{name}.txt", "-o", f"{name}.npy", *options]) == 0
    first, second = np.load("a.npy"), np.load("b.npy")
    assert first.dtype == second.dtype == np.int8
    np.testing.assert_allclose(first[1].astype(int), second[0].astype(int), rtol=0, atol=1)
    with pytest.raises(ConfigError, match="--ranges: is of --dtype int8"):
        encode.main([str(tiny.path), "a.txt", "-o", "c.npy", "--ranges", "ranges.npy"])
