"""From the name of a model to the model, its tokenizer, and how its files want it used."""

from pathlib import Path
from typing import Any, NamedTuple

from embedrun.backbone import adapter as adapters
from embedrun.backbone import declared, pretrained, quantized
from embedrun.backbone.checkpoint import is_checkpoint, put, run_of
from embedrun.backbone.declared import Declared
from embedrun.backbone.files import commit_of, locate
from embedrun.backbone.recipe import in_place_of, recipe
from embedrun.config import AdapterConfig
from embedrun.errors import ConfigError, DataError
from embedrun.runs.search import settle


class Model(NamedTuple):
    """A model, ready for use.

    Args:
        model: of transformers, on the CPU.
        tokenizer: of transformers.
        declared: how its files want it used.
        origin: its `name`, and the `commit` of a hub id.
    """

    model: Any
    tokenizer: Any
    declared: Declared
    origin: dict[str, str | None]


def read(
    name: str,
    revision: str | None,
    *,
    attention: str,
    dtype: str | None = None,
    adapter: AdapterConfig | None = None,
) -> Model:
    """The model of a name.

    Args:
        name: as `locate` takes it.
        revision: as `locate` takes it.
        attention: implementation.
        dtype: of the weights; None: as `pretrained.read` says, and of a checkpoint as its run had them.
        adapter: put a new one in; None: only what the model has.

    Raises:
        ConfigError: for a new adapter that does not fit the model, or on a checkpoint.
        DataError: if the model is not to be had, or cannot be read whole.
    """
    name = settle(name)
    folder = locate(name, revision)
    origin = {"name": name, "commit": commit_of(folder)}
    if not is_checkpoint(folder):
        model, tokenizer = pretrained.read(folder, attention=attention, dtype=dtype, adapter=adapter)
        if adapter is not None:
            # The name of a folder holds from here only, and of a run directory its model is meant.
            base = str(folder.resolve()) if Path(name).expanduser().exists() else name
            adapters.name_base(model, name=base, revision=origin["commit"])
        return Model(model, tokenizer, declared.read(folder), origin)
    if adapter is not None:
        raise ConfigError(
            f"backbone.adapter: a new adapter stands beside a whole model, and {folder} is a checkpoint; "
            "name the run directory once it has finished"
        )
    found = _base(folder, attention=attention, dtype=dtype)
    put(folder, found.model)
    return found._replace(origin=origin)


def _base(checkpoint: Path, *, attention: str, dtype: str | None) -> Model:
    """What the weights of a checkpoint are laid over."""
    run = run_of(checkpoint)
    if (run / "model").is_dir():
        return read(str(run / "model"), None, attention=attention, dtype=dtype)
    made = recipe(run)
    start = made.backbone
    assert start.name is not None, "locate() has asked"
    if start.adapter is not None and (lacking := quantized.problems(start.adapter)):
        raise DataError([f"{checkpoint}: cannot be read on this machine: {one}" for one in lacking])
    found = read(
        start.name,
        start.revision,
        attention=attention,
        dtype=dtype or start.dtype,
        adapter=start.adapter,
    )
    return found._replace(declared=in_place_of(found.declared, made))
