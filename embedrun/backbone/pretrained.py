"""Read a transformer and its tokenizer from a folder."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from embedrun.backbone.declared import read_json
from embedrun.errors import DataError

_log = logging.getLogger("embedrun")


def read(folder: Path, *, attention: str) -> tuple[Any, Any]:
    """The model, in float32, and the tokenizer of a folder; only data is read, no code.

    transformers 5 would load weights in the type of the file; float16 weights then cannot be trained
    and score differently, so float32 is asked for.

    Args:
        folder: with `config.json`, weights (safetensors, else a torch file of plain tensors) and
            tokenizer files.
        attention: ``sdpa``, or ``eager``, which also stands in where a model has no sdpa.

    Raises:
        DataError: if the folder needs code of its own, or cannot be read whole.
    """
    from transformers import AutoTokenizer

    _refuse_foreign_code(folder)
    try:
        with quiet():
            model, report = _load(folder, attention)
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as fault:  # files from anywhere fail in any way
        first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise DataError(f"{folder}: cannot be read as a model: {first}") from fault
    # BERT's pooler is not used here, and checkpoints trained without it lack it.
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise DataError(
            f"{folder}: the weights lack {len(missing)} of the model's tensors "
            f"({', '.join(missing[:3])}, ...), which would be random. "
            "Download the folder again, or name another"
        )
    if model.config.is_encoder_decoder:
        raise DataError(f"{folder}: {model.config.model_type} has a decoder after its encoder; not supported")
    return model, tokenizer


def _load(folder: Path, attention: str) -> tuple[Any, Any]:
    from transformers import AutoModel

    options: dict[str, Any] = {
        "dtype": torch.float32,
        "trust_remote_code": False,
        "local_files_only": True,
        "weights_only": True,
        "output_loading_info": True,
    }
    try:
        return AutoModel.from_pretrained(folder, attn_implementation=attention, **options)
    except ValueError as fault:
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
