"""Transformers: where they come from, and how texts pass through them."""

from collections.abc import Callable, Iterable

import torch

from embedrun.backbone import adapter, pretrained, scratch
from embedrun.backbone.declared import Declared
from embedrun.backbone.files import locate
from embedrun.backbone.transformer import Backbone, longest_text
from embedrun.config import BackboneConfig, ScratchConfig
from embedrun.errors import ConfigError

__all__ = ["Backbone", "load", "locate"]


def load(
    config: BackboneConfig,
    texts_for_vocabulary: Callable[[], Iterable[str]] | Iterable[str] | None = None,
    *,
    seed: int,
    encodes_only: bool = False,
) -> Backbone:
    """The backbone that a configuration describes, on the CPU, in float32.

    With `encodes_only` it may be read without transformers, until its `model` or `tokenizer` is asked for.

    `texts_for_vocabulary` is needed for a model trained from scratch; if it is a function, it is called only
    then. `seed` is for weights that no file gives; the global random state is left untouched.
    """
    if (config.name is None) == (config.scratch is None):
        raise ConfigError(
            "backbone: either name says which model to load or scratch gives the shape of a new one, and the "
            "other is null; choose backbone=tiny, or backbone.name=... backbone.scratch=null"
        )
    # What a particular device or precision rules out was refused when the run was planned.
    if wrong := adapter.machine_problems(config) + adapter.contradictions(
        config, device="auto", precision="auto"
    ):
        raise ConfigError(wrong)
    # Loading, too, draws random numbers, for a pooler that a checkpoint lacks.
    # To ask CUDA for its state would start it, for a run on a processor, too; weights in 4 bits start it.
    cuda = torch.cuda.is_initialized() or (config.adapter is not None and config.adapter.quantize is not None)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if cuda else ()):
        (torch.manual_seed if cuda else torch.default_generator.manual_seed)(seed)
        if config.scratch is None:
            loaded = pretrained.read_model(config, encodes_only=encodes_only)
        else:
            loaded = _new(config, config.scratch, texts_for_vocabulary)
    model, tokenizer, says, origin = loaded
    length = longest_text(model, tokenizer, limit=config.max_length, declared=says.max_length)
    return Backbone(
        model, tokenizer, max_length=length, declared=says, origin=origin, attention=config.attention
    )


def _new(
    config: BackboneConfig, shape: ScratchConfig, texts: Callable[[], Iterable[str]] | Iterable[str] | None
) -> pretrained.Model:
    if texts is None:
        raise ConfigError(
            "backbone.name: null makes a new model, which needs a training set for its vocabulary"
        )
    if config.revision is not None:
        raise ConfigError(f"backbone.revision: {config.revision!r} is for a hub id, and name is null")
    words = texts() if callable(texts) else texts
    model, tokenizer = scratch.make(shape, words, attention=config.attention)
    return pretrained.Model(model, tokenizer, Declared(), {"name": None, "commit": None})
