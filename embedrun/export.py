"""A model folder that transformers and sentence-transformers load, and its card."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

SCHEMA = 1  # of embedrun.json, which holds what the other files cannot say

# The keys and module names of sentence-transformers up to version 5, which version 6 reads as well.
_MODULES = "sentence_transformers.models"
_MODES = {
    "pooling_mode_cls_token": ("cls", "cls_last_mean"),
    "pooling_mode_max_tokens": ("max",),
    "pooling_mode_mean_tokens": ("mean", "cls_last_mean", "first_last_mean"),
    "pooling_mode_mean_sqrt_len_tokens": (),
}


def write_model(
    folder: Path,
    *,
    model: Any,
    tokenizer: Any,
    pooling: str,
    first_layer: int | None,
    normalize: bool,
    max_length: int,
    lowercase: bool = False,
) -> None:
    """Write weights, tokenizer and everything that says how vectors are made.

    The two poolings that sentence-transformers does not have are built of its modules: `cls_last_mean`
    is both vectors side by side and a linear layer that halves and adds them; `first_last_mean` is a
    weighted sum of layers, then the mean.

    Args:
        folder: must not exist, or be empty; the caller publishes it whole.
        model: of transformers.
        tokenizer: of transformers.
        pooling: our name of it.
        first_layer: of `first_last_mean`.
        normalize: whether vectors are scaled to length 1.
        max_length: tokens of a text.
        lowercase: whether texts are lower-cased before the tokenizer.

    Raises:
        FileExistsError: if the folder holds anything.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder}: not empty; a model is written to a folder of its own")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    own = {
        "schema": SCHEMA,
        "pooling": pooling,
        "first_layer": first_layer,
        "normalize": normalize,
        "max_length": max_length,
        "lowercase": lowercase,
    }
    _json(folder / "embedrun.json", own)
    _json(folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": lowercase})
    kinds = ["Transformer", *_modules(folder, model.config, pooling, first_layer)]
    if normalize:
        kinds.append("Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"{_MODULES}.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    for module in modules[1:]:
        (folder / module["path"]).mkdir(exist_ok=True)
    _json(folder / "modules.json", modules)


def _modules(folder: Path, config: Any, pooling: str, first_layer: int | None) -> list[str]:
    """Write the modules between token vectors and vector, and give their kinds in order."""
    kinds = ["Pooling"]
    dim = config.hidden_size
    if first_layer is not None:
        kinds.insert(0, "WeightedLayerPooling")
        _layer_weights(folder / "1_WeightedLayerPooling", dim, config.num_hidden_layers, first_layer)
        # Without this the transformer hands on its last layer only.
        _json(
            folder / "config.json",
            {**json.loads(_text(folder / "config.json")), "output_hidden_states": True},
        )
    modes = {key: pooling in names for key, names in _MODES.items()}
    target = folder / f"{len(kinds)}_Pooling"
    target.mkdir()
    _json(target / "config.json", {"word_embedding_dimension": dim, **modes})
    if pooling == "cls_last_mean":
        kinds.append("Dense")
        _halves(folder / "2_Dense", dim)
    return kinds


def _layer_weights(target: Path, dim: int, layers: int, first_layer: int) -> None:
    weights = torch.zeros(layers + 1 - first_layer)  # (layers from the first on,)
    weights[0] += 1
    weights[-1] += 1  # the same one if the model has no other
    target.mkdir()
    save_file({"layer_weights": weights}, target / "model.safetensors")
    config = {"word_embedding_dimension": dim, "layer_start": first_layer, "num_hidden_layers": layers}
    _json(target / "config.json", config)


def _halves(target: Path, dim: int) -> None:
    half = torch.eye(dim) / 2  # (dim, dim)
    target.mkdir()
    save_file({"linear.weight": torch.cat([half, half], dim=1).contiguous()}, target / "model.safetensors")
    config = {
        "in_features": 2 * dim,
        "out_features": dim,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    _json(target / "config.json", config)


def write_card(
    folder: Path,
    *,
    title: str,
    base_model: str | None,
    dataset: str,
    scores: Mapping[str, float],
    config_yaml: str,
    citations: Sequence[str] = (),
    license: str | None = None,
) -> None:
    """Write `README.md`, the model card.

    Args:
        folder: of the model.
        title: of the card.
        base_model: hub id of the model that training started from; None: none.
        dataset: what it was trained on.
        scores: by the key of `results.json`, ``"sts/avg/spearman"``; correlations and accuracies x 100.
        config_yaml: the resolved configuration.
        citations: one line each, of the methods used.
        license: identifier as the hub knows it; None: not stated.
    """
    import yaml

    tags = ["sentence-transformers", "sentence-similarity", "feature-extraction", "embedrun"]
    head: dict[str, Any] = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": tags,
    }
    head |= {key: value for key, value in (("base_model", base_model), ("license", license)) if value}
    rows = [f"| {_cell(name)} | {value:.2f} |" for name, value in scores.items()]
    # A fence longer than any run of backticks in it cannot be closed from inside.
    fence = "`" * max(3, 1 + max((len(run) for run in _ticks(config_yaml)), default=0))
    started = f"`{base_model}`" if base_model else "random weights"
    parts = [
        f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---",
        f"# {_line(title)}",
        f"A sentence-embedding model. Training started from {_line(started)}, on {_line(dataset)}.",
        "## Use",
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        'vectors = SentenceTransformer("FOLDER").encode(["a sentence", "another one"])\n```',
        "```python\nfrom embedrun import Encoder\n\n"
        'vectors = Encoder.load("FOLDER").encode(["a sentence", "another one"])\n```',
    ]
    if rows:
        explained = "Suite, task and metric; correlations and accuracies times 100."
        parts += ["## Scores", explained, "\n".join(["| score | value |", "|---|---:|", *rows])]
    parts += ["## Training", f"{fence}yaml\n{config_yaml.rstrip()}\n{fence}"]
    if citations:
        parts += ["## Citation", "\n".join(f"- {_line(citation)}" for citation in citations)]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _ticks(text: str) -> list[str]:
    return re.findall("`+", text)


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
