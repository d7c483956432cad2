"""From a name to a model and its tokenizer."""

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from embedrun.backbone import adapter as adapters
from embedrun.backbone import bert, declared
from embedrun.backbone.declared import Declared, read_config
from embedrun.backbone.dropout import same_again
from embedrun.backbone.files import base_of, commit_of, is_here, lacking, locate
from embedrun.backbone.layers import cut, see_both_ways
from embedrun.backbone.of_run import in_place_of, is_checkpoint, put, recipe, run_of
from embedrun.config import AdapterConfig, BackboneConfig
from embedrun.console import clean
from embedrun.errors import ConfigError, DataError, EmbedrunError
from embedrun.runs.search import settle

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_log = logging.getLogger("embedrun")
_LONGEST = 500  # letters
_LEAST = 0.5  # tokens to rows: models have more rows, to be divisible by 128, a tenth at most


def read(
    folder: Path,
    *,
    attention: str,
    dtype: str | None = None,
    adapter: AdapterConfig | None = None,
    layers: int | None = None,
    bidirectional: bool = False,
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """The model and the tokenizer of a folder; only data is read, no code.

    transformers 5 would load weights in the type of the file; float16 weights then cannot be trained
    and score differently, so the type is always asked for.

    Args:
        folder: with `config.json`, weights (safetensors) and tokenizer files; or with an adapter and the
            name of its base model.
        attention: ``sdpa``, ``flash_attention_2``, or ``eager``, which also stands in for a lacking sdpa.
        dtype: of the weights; None: float32, and for an adapter's base the type it was trained on.
        adapter: add a new one; None: only what the folder has.
        layers: keep the first so many, once all are read; None: all.
        bidirectional: let each token of a decoder see the whole text.
    """
    from embedrun.backbone import ran, static  # noqa: F401, transformers knows them by it

    base = base_of(folder)
    if base is not None and adapter is not None:
        raise ConfigError(
            f"backbone.adapter: {folder} is an adapter itself; leave backbone.adapter null to train it"
        )
    weights = base or folder
    quantized, trained_dtype = (adapter, None) if base is None else adapters.stored(folder)
    _refuse_foreign_code(weights)
    of_tokenizer = folder if (folder / "tokenizer_config.json").is_file() else weights
    with readable(folder, "a model"), quiet():
        model, report = _load(weights, attention, dtype or trained_dtype or "float32", quantized)
        tokenizer = read_tokenizer(of_tokenizer, getattr(model.config, "vocab_size", None))
        if base is not None:
            adapters.read(model, folder)
    _check_whole(model, weights, report["missing_keys"])
    cut(model, layers)
    if bidirectional or (base is not None and adapters.was_bidirectional(folder)):
        see_both_ways(model)
    if adapter is not None:
        adapters.add(model, adapter)
    return model, tokenizer


def _check_whole(model: Any, folder: Path, absent: Collection[str]) -> None:
    # Most poolings do without BERT's pooler, and checkpoints trained without it lack it.
    missing = sorted(name for name in absent if not name.startswith("pooler."))
    if missing:
        raise DataError(
            f"{folder}: the weights lack {len(missing)} of the model's tensors ({', '.join(missing[:3])}), "
            "which would be random; download the folder again, or name another"
        )
    if absent:
        model.pooler.is_random = True  # nobody may pool with it
    if model.config.is_encoder_decoder:
        raise DataError(f"{folder}: {model.config.model_type} has a decoder; not supported")


@contextlib.contextmanager
def readable(folder: Path, what: str) -> Iterator[None]:
    """A block that reads a folder with a library: DataError on one line for whatever that raises."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, EmbedrunError):
        raise
    except Exception as fault:  # files from anywhere fail in any way
        message = " ".join(clean(str(fault)).split()) or type(fault).__name__
        raise DataError(f"{folder}: cannot be read as {what}: {message[:_LONGEST]}") from None


def _load(
    folder: Path, attention: str, dtype: str, adapter: AdapterConfig | None
) -> tuple[Any, Mapping[str, Collection[str]]]:
    from transformers import AutoConfig, AutoModel

    local = {"trust_remote_code": False, "local_files_only": True}
    # A file may name an attention, too, and where transformers reads it by itself, the file's wins.
    options = {"config": AutoConfig.from_pretrained(folder, **local), "dtype": getattr(torch, dtype), **local}
    if adapter is not None and adapter.quantize is not None:
        options |= adapters.loading(adapter)
    get = partial(
        AutoModel.from_pretrained, folder, use_safetensors=True, output_loading_info=True, **options
    )
    try:
        model, report = get(attn_implementation=attention)
    except ValueError as fault:
        message = str(fault)
        if attention == "flash_attention_2" and "lash" in message:
            raise ConfigError(f"backbone.attention: {message.splitlines()[0]}; choose sdpa") from fault
        # MPNet, DeBERTa and others have no sdpa; eager computes the same in more memory.
        if attention != "sdpa" or "attn_implementation" not in message:
            raise
        _log.info("%s: no sdpa for this model, eager attention is used", folder)
        model, report = get(attn_implementation="eager")
    # A decoder would keep keys and values for the next word, which never comes.
    model.config.use_cache = False
    return model, report


def _refuse_foreign_code(folder: Path) -> None:
    from transformers import CONFIG_MAPPING

    kind = str(read_config(folder).get("model_type"))
    if kind not in CONFIG_MAPPING:
        raise DataError(
            f"{folder}/config.json: model_type {kind!r} is not one that transformers knows, and code that "
            "comes with a model is never run; choose a model whose architecture is part of transformers, or "
            "a copy whose config.json names that of its weights, as docs/data.md does for one of RAOE's"
        )


def read_tokenizer(folder: Path, rows: int | None) -> "PreTrainedTokenizerBase":
    """The tokenizer of a folder, of transformers; only data is read, no code.

    `rows` is the size of the model's embedding table, None if unknown. Where files are missing transformers
    makes a tokenizer to which every word is unknown, or that gives no tokens at all.
    """
    from transformers import AutoTokenizer

    if problem := lacking(folder):
        raise DataError(problem)
    with readable(folder, "a tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    problem = None
    if rows is not None and len(tokenizer) < _LEAST * rows:
        problem = f"its tokenizer has {len(tokenizer):,} tokens, and the model has vectors for {rows:,}"
    elif tokenizer.is_fast:
        special = set(tokenizer.all_special_ids)
        if not bert.knows_words(tokenizer.backend_tokenizer, special, tokenizer.unk_token_id):
            problem = "to its tokenizer every word is unknown, so that all texts would be alike"
    if problem is not None:
        raise DataError(
            f"{folder}: {problem}: tokenizer files are missing, cut off or another model's; copy or download "
            "the folder again, or name another"
        )
    return tokenizer


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


class Model(NamedTuple):
    """A model and its tokenizer, both of transformers or both of `bert`, on the CPU.

    `declared` is how its files want it used; `origin` has its `name`, and the `commit` of a hub id.
    """

    model: Any
    tokenizer: Any
    declared: Declared
    origin: dict[str, str | None]


def read_model(config: BackboneConfig, *, encodes_only: bool = False) -> Model:
    """The model that a configuration names.

    With `encodes_only`, `bert` reads what it knows of whole models in float32 with sdpa. A checkpoint without
    a given `dtype` has weights of the type that its run had.
    """
    assert config.name is not None
    name = settle(config.name)
    folder = locate(name, config.revision)
    origin = {"name": name, "commit": commit_of(folder)}
    if is_checkpoint(folder):
        return _read_checkpoint(folder, config)._replace(origin=origin)
    attention, dtype, adapter = config.attention, config.dtype, config.adapter
    whole = partial(
        read,
        folder,
        attention=attention,
        dtype=dtype,
        adapter=adapter,
        layers=config.layers,
        bidirectional=config.bidirectional,
    )
    plain = (
        not config.bidirectional and attention == "sdpa" and dtype in (None, "float32") and adapter is None
    )
    light = bert.read(folder, whole) if encodes_only and plain else None
    if light is not None:
        cut(light[0], config.layers)
    loaded = Model(*(light or whole()), declared.read(folder), origin)
    if adapter is not None:
        # A relative path is valid from here only, and a run directory stands for its model.
        base = loaded.model.peft_config[adapters.NAME]
        base.base_model_name_or_path = str(folder.resolve()) if is_here(name) else name
        base.revision = origin["commit"]
    return loaded


def _read_checkpoint(folder: Path, config: BackboneConfig) -> Model:
    if config.adapter is not None:
        raise ConfigError(
            f"backbone.adapter: a new adapter needs a whole model, and {folder} is a checkpoint; "
            "name the run directory once it has finished"
        )
    base = _base_of_checkpoint(folder, config)
    put(folder, base.model)
    cut(base.model, config.layers)
    return base


def _base_of_checkpoint(checkpoint: Path, config: BackboneConfig) -> Model:
    run = run_of(checkpoint)
    if (run / "model").is_dir():
        start = BackboneConfig(name=str(run / "model"), attention=config.attention, dtype=config.dtype)
        return read_model(start)
    made = recipe(run)
    start = replace(made.backbone, attention=config.attention, dtype=config.dtype or made.backbone.dtype)
    if start.adapter is not None and (lack := adapters.cannot_quantize(start.adapter)):
        raise DataError([f"{checkpoint}: cannot be read on this machine: {problem}" for problem in lack])
    base = read_model(start)
    return base._replace(declared=in_place_of(base.declared, made))


def enable(model: "PreTrainedModel") -> None:
    """Turn on gradient checkpointing (Chen et al. 2016, arXiv:1604.06174): keep only the layers' inputs.

    The gradient is bit-identical: dropout repeats itself, by torch's random state or by the seeds of the
    texts. Passes without dropout are made in evaluation mode and keep everything.
    """
    if not model.supports_gradient_checkpointing:
        raise ConfigError(
            f"training.gradient_checkpointing: this model ({model.config.model_type}) cannot; leave it "
            "false, and lower training.micro_batch_size for less memory"
        )
    # It also lets gradients in at the embeddings, which are frozen under an adapter. The reentrant way loses
    # the gradient of an adapter, and takes no context.
    model.activation_checkpointing_enable({"use_reentrant": False, "context_fn": same_again})
