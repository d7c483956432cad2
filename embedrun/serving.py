"""A model as an ONNX graph: text tokens in, the pooled and scaled vector out; what that costs in score."""

import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from embedrun.backbone.pretrained import quiet
from embedrun.encoder import Encoder
from embedrun.errors import DISK, OUT_OF_MEMORY, ConfigError, exit_code
from embedrun.evaluation.intervals import Comparison, differences, figure
from embedrun.pooling import LEGACY, behind
from embedrun.rows import Rows

GRAPH, GRAPH_INT8 = "onnx/model.onnx", "onnx/model_int8.onnx"  # where sentence-transformers looks, too
_BATCH = 32  # texts of a pass


def problems(encoder: Encoder) -> list[str]:
    """Why there can be no graph of a model."""
    pooling = encoder.pooling
    if getattr(encoder.backbone.model, "peft_config", None):
        return ["--onnx: the adapter must be added to its base model; add --merge-lora"]
    if pooling.name in LEGACY or pooling.skip_prompt:
        what = "leaves the prompt out" if pooling.skip_prompt else "averages over padding"
        return [f"--onnx: the pooling {what}, which the graph cannot; export without --onnx"]
    return []


class _Graph(nn.Module):
    """Token vectors of the last layer, and vectors of texts as `Encoder.encode` gives them."""

    def __init__(self, model: nn.Module, encoder: Encoder, layer: nn.Linear | None) -> None:
        super().__init__()
        self.model, self.pooling, self.layer, self.scale = model, encoder.pooling, layer, encoder.scale
        self.dense = encoder.dense

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        every = self.pooling.all_layers
        given = self.model(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=every)
        layers = given.hidden_states if every else [given.last_hidden_state]
        vectors = self.pooling(layers, attention_mask)  # (texts, dim)
        if self.layer is not None:
            vectors = behind(self.layer, vectors)
        return given.last_hidden_state, self.scale(self.dense(vectors))


def write(encoder: Encoder, folder: Path, *, int8: bool) -> None:
    """Write the graph of an encoder into its exported folder, and with `int8` one of 8-bit weights beside it.

    Inputs are `input_ids` and `attention_mask`, int64, ``(texts, tokens)``; outputs `last_hidden_state`,
    which sentence-transformers pools itself, and `sentence_embedding`. Any number of texts and tokens fits.
    The 8-bit weights are scaled by column and the inputs of a product as they come (dynamic quantisation).

    Raises:
        ConfigError: where ONNX lacks an operator of the model.
    """
    from transformers import AutoModel

    with quiet():
        model = AutoModel.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32).eval()
    graph = _Graph(model, encoder, encoder.layer(training=False)).eval()
    ids = torch.randint(1, 9, (3, 12), generator=torch.Generator().manual_seed(0))  # (texts, tokens)
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    batch, length = torch.export.Dim("texts", min=1), torch.export.Dim("tokens", min=2)
    shape = {0: batch, 1: length}
    (folder / GRAPH).parent.mkdir()
    try:
        with _silent():
            program = torch.onnx.export(
                graph,
                (ids, mask),
                dynamo=True,
                input_names=["input_ids", "attention_mask"],
                output_names=["last_hidden_state", "sentence_embedding"],
                dynamic_shapes={"input_ids": shape, "attention_mask": shape},
                verbose=False,
            )
        assert program is not None
        program.save(str(folder / GRAPH), external_data=False)
    except Exception as fault:  # the exporter raises of every kind
        if exit_code(fault) in (DISK, OUT_OF_MEMORY):
            raise
        why = fault.__cause__ or fault
        line = (str(why).strip() or type(why).__name__).splitlines()[0]
        raise ConfigError(
            f"--onnx: {type(model).__name__} cannot be written as a graph ({type(why).__name__}: {line}); "
            "export without --onnx, and serve it with torch"
        ) from fault
    if int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        with _silent():
            quantize_dynamic(
                folder / GRAPH, folder / GRAPH_INT8, weight_type=QuantType.QInt8, per_channel=True
            )


@contextmanager
def _silent() -> Iterator[None]:
    """Without what the exporters tell of themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class Served:
    """A graph that encodes texts as its model does: the same prompt, length and tokens."""

    def __init__(self, encoder: Encoder, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        providers = ["CPUExecutionProvider"]
        self._encoder = encoder
        self._session = onnxruntime.InferenceSession(str(path), options, providers=providers)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, in order, float32, ``(texts, dim)``; those of similar length in one pass."""
        table = self._encoder.tokenize(list(texts))
        order = np.argsort(-np.asarray(table.lengths), kind="stable")  # (texts,)
        vectors = np.zeros((len(texts), self._encoder.dim), np.float32)
        for begin in range(0, len(order), _BATCH):
            rows = order[begin : begin + _BATCH]  # (some texts,)
            tokens = table.take(rows)
            texts_ids = tokens.ids.split(tokens.lengths.tolist())
            ids = pad_sequence(list(texts_ids), batch_first=True, padding_value=self._encoder.backbone.filler)
            mask = torch.arange(ids.shape[1]) < tokens.lengths[:, None]  # (some texts, tokens), as `ids`
            given = {"input_ids": ids.numpy(), "attention_mask": mask.long().numpy()}
            vectors[rows] = np.asarray(self._session.run(["sentence_embedding"], given)[0])
        return vectors


def farthest(encoder: Encoder, path: Path, texts: Sequence[str]) -> tuple[float, float]:
    """Of the vectors of a graph and of its model: the largest difference, and the least cosine."""
    ours, theirs = encoder.encode(texts).astype(np.float64), Served(encoder, path).encode(texts)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)  # (texts,)
    cosine = (ours * theirs).sum(axis=1) / np.maximum(lengths, 1e-12)
    return float(np.abs(ours - theirs).max()), float(cosine.min())


def cost(encoder: Encoder, path: Path, pairs: Rows) -> tuple[float, float, Comparison, float]:
    """Spearman × 100 of the model and of its graph on scored pairs, their difference, and how much faster.

    Both encode every distinct sentence twice, in turns; the faster time counts.
    """
    graph, texts = Served(encoder, path), list(dict.fromkeys(pairs.sentences()))
    place = {text: row for row, text in enumerate(texts)}
    seconds, cosines = {}, {}
    for _ in range(2):
        for name, encode in (("model", encoder.encode), ("graph", graph.encode)):
            started = time.perf_counter()
            vectors = encode(texts)  # (texts, dim)
            seconds[name] = min(seconds.get(name, np.inf), time.perf_counter() - started)
            unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            left, right = (unit[[place[text] for text in pairs.texts[view]]] for view in ("left", "right"))
            cosines[name] = (left * right).sum(axis=1)  # (pairs,)
    gold = pairs.targets["score"]
    before, after = (figure("correlation", cosines[name], gold) for name in ("model", "graph"))
    compared = differences("correlation", cosines["model"], cosines["graph"], gold).judged()
    return before, after, compared, seconds["model"] / seconds["graph"]
