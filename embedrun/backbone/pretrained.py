"""Read a transformer and its tokenizer from a folder."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from embedrun import tokenizer as tokenizers
from embedrun.backbone import adapter as adapters
from embedrun.backbone import quantized
from embedrun.backbone.declared import read_json
from embedrun.backbone.files import base_of
from embedrun.config import AdapterConfig
from embedrun.errors import ConfigError, DataError, EmbedrunError

_log = logging.getLogger("embedrun")


def read(
    folder: Path, *, attention: str, dtype: str | None = None, adapter: AdapterConfig | None = None
) -> tuple[Any, Any]:
    """The model and the tokenizer of a folder; only data is read, no code.

    transformers 5 would load weights in the type of the file; float16 weights then cannot be trained
    and score differently, so the type is always asked for.

    Args:
        folder: with `config.json`, weights (safetensors, else a torch file of plain tensors) and
            tokenizer files; or with an adapter and the name of its base model.
        attention: ``sdpa``, ``flash_attention_2``, or ``eager``, which also stands in where a model has no
            sdpa.
        dtype: of the weights; None: float32, and of an adapter's base what it was trained on.
        adapter: put a new one in; None: only what the folder has.

    Raises:
        ConfigError: for a new adapter that does not fit the model, or beside another one.
        DataError: if the folder needs code of its own, or cannot be read whole, its tokenizer included.
    """
    from embedrun.backbone import ran  # noqa: F401, transformers knows RAN by it

    base = base_of(folder)
    if base is not None and adapter is not None:
        raise ConfigError(
            f"backbone.adapter: {folder} is an adapter itself; leave backbone.adapter null to go on with it"
        )
    weights = folder if base is None else base
    told, trained_dtype = (adapter, None) if base is None else quantized.stored(folder)
    _refuse_foreign_code(weights)
    words = folder if (folder / "tokenizer_config.json").is_file() else weights
    try:
        with quiet():
            model, report = _load(weights, attention, dtype or trained_dtype or "float32", told)
            tokenizer = tokenizers.read(words, getattr(model.config, "vocab_size", None))
            if base is not None:
                adapters.read(model, folder)
    except (MemoryError, torch.OutOfMemoryError, EmbedrunError):
        raise
    except Exception as fault:  # files from anywhere fail in any way
        first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise DataError(f"{folder}: cannot be read as a model: {first}") from fault
    _check(model, weights, report)
    if adapter is not None:
        adapters.add(model, adapter)
    return model, tokenizer


def _check(model: Any, folder: Path, report: Mapping[str, Any]) -> None:
    # Most poolings do without BERT's pooler, and checkpoints trained without it lack it.
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise DataError(
            f"{folder}: the weights lack {len(missing)} of the model's tensors "
            f"({', '.join(missing[:3])}, ...), which would be random. "
            "Download the folder again, or name another"
        )
    if len(missing) < len(report["missing_keys"]):
        model.pooler.is_random = True  # nobody may pool with it
    if model.config.is_encoder_decoder:
        raise DataError(f"{folder}: {model.config.model_type} has a decoder after its encoder; not supported")


def _load(folder: Path, attention: str, dtype: str, adapter: AdapterConfig | None) -> tuple[Any, Any]:
    options: dict[str, Any] = {
        "dtype": getattr(torch, dtype),
        "trust_remote_code": False,
        "local_files_only": True,
        "weights_only": True,
        "output_loading_info": True,
    }
    if adapter is not None and adapter.quantize is not None:
        options |= quantized.loading(adapter)
    model, report = _with_attention(folder, attention, options)
    # A decoder would keep keys and values for the next word, which never comes.
    model.config.use_cache = False
    if model.config.model_type == "modernbert":
        # Some versions of transformers compile it unasked, which fails or stalls where lengths vary.
        model.config.reference_compile = False
    return model, report


def _with_attention(folder: Path, attention: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoModel

    try:
        return AutoModel.from_pretrained(folder, attn_implementation=attention, **options)
    except ValueError as fault:
        if attention == "flash_attention_2" and "lash" in str(fault):
            first = str(fault).strip().splitlines()[0]
            raise ConfigError(f"backbone.attention: not for this model: {first}; choose sdpa") from fault
        # MPNet, DeBERTa and others have no sdpa; eager computes the same in more memory.
        if attention == "eager" or "attn_implementation" not in str(fault):
            raise
        _log.info("%s: no %s attention for this model, eager is used", folder, attention)
        return AutoModel.from_pretrained(folder, attn_implementation="eager", **options)


def _refuse_foreign_code(folder: Path) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = read_json(folder / "config.json")
    kind = config.get("model_type")
    if kind in CONFIG_MAPPING:
        return
    if "auto_map" in config:
        raise DataError(
            f"{folder}/config.json: needs code that comes with the model (auto_map), and embedrun runs none; "
            "choose a model of an architecture that transformers has itself"
        )
    raise DataError(f"{folder}/config.json: model_type {kind!r} is not one that transformers knows")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bar and no table of unused weights; faults are raised, not logged."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
