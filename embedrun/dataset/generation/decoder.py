"""Read a causal language model and its tokenizer from a folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedrun import tokenizer as tokenizers
from embedrun.errors import DataError, EmbedrunError


def load(folder: Path, *, device: str, precision: str, temperature: float) -> tuple[Any, Any]:
    """The model, ready to write, and its tokenizer, which pads on the left; no code of the folder is run.

    Args:
        folder: with configuration, weights and tokenizer.
        device: `cpu` or `cuda`.
        precision: of the weights, `fp32`, `bf16` or `fp16`.
        temperature: of sampling from all tokens; 0 takes the likeliest.

    Raises:
        DataError: if the folder cannot be read whole.
    """
    import torch
    from transformers import AutoModelForCausalLM

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        with _quiet():
            found: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, weights_only=True, output_loading_info=True, **local
            )
            model, report = found
            tokenizer = tokenizers.read(folder, getattr(model.config, "vocab_size", None))
    except (MemoryError, torch.OutOfMemoryError, EmbedrunError):
        raise
    except Exception as fault:  # files from anywhere fail in any way
        first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise DataError(f"{folder}: cannot be read as a causal language model: {first}") from fault
    if missing := sorted(report["missing_keys"]):
        raise DataError(
            f"{folder}: the weights lack {', '.join(missing[:3])} of a causal language model, which would be "
            "random; name a model that was trained to write"
        )
    _set_up(model, tokenizer, temperature)
    return model.eval().to(device), tokenizer


def _set_up(model: Any, tokenizer: Any, temperature: float) -> None:
    from transformers import GenerationConfig

    ends = end_tokens(model.generation_config.eos_token_id) or end_tokens(tokenizer.eos_token_id)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = ends[0] if ends else 0
    tokenizer.padding_side = "left"  # what is written follows the prompt at once
    sampled = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    # A new one, since generate() falls back to the model's own settings for what it is not told.
    model.generation_config = GenerationConfig(
        **(sampled if temperature > 0 else {"do_sample": False}),
        eos_token_id=ends or None,
        pad_token_id=tokenizer.pad_token_id,
    )


def end_tokens(value: int | list[int] | None) -> list[int]:
    """The ids that end a text, from the one, the several or the none that a configuration gives."""
    return [] if value is None else [value] if isinstance(value, int) else list(value)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
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
