"""What a model folder says about its own use: pooling, normalisation, length."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from embedrun.errors import DataError

SCHEMA = 1  # of embedrun.json

# Modes of sentence-transformers' Pooling, by their key in its old configuration files.
_OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class Declared:
    """How the files of a model want it used.

    Args:
        pooling: our name, or what the files call a pooling that we do not have; None: they say nothing.
        first_layer: of ``first_last_mean``.
        normalize: whether vectors are scaled to length 1; None: the files say nothing.
        max_length: tokens; None: the files say nothing.
        foreign: modules between tokens and vector that are not ours, ``["Dense"]``.
        lowercase: whether texts are lower-cased before the tokenizer.
    """

    pooling: str | None = None
    first_layer: int | None = None
    normalize: bool | None = None
    max_length: int | None = None
    foreign: tuple[str, ...] = ()
    lowercase: bool = False


def read(folder: Path) -> Declared:
    """What `embedrun.json`, else the files of sentence-transformers, else nobody says.

    Raises:
        DataError: for a file that is not readable, or written by a later version of embedrun.
    """
    own = folder / "embedrun.json"
    if not own.is_file() and not (folder / "modules.json").is_file():
        return Declared()
    try:
        return _own(own) if own.is_file() else _sentence_transformers(folder)
    except (KeyError, TypeError, AttributeError) as fault:
        raise DataError(
            f"{folder}: its files on pooling are not of the known form ({type(fault).__name__}: {fault}); "
            "download the folder again, or name another"
        ) from fault


def read_json(path: Path) -> Any:
    """A JSON file's content.

    Raises:
        DataError: if it is not readable.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise DataError(f"{path}: not readable as JSON: {fault}") from fault


def _own(path: Path) -> Declared:
    data = read_json(path)
    if data.get("schema") != SCHEMA:
        raise DataError(f"{path}: schema {data.get('schema')!r}, and this version of embedrun reads {SCHEMA}")
    names = ("pooling", "first_layer", "normalize", "max_length", "lowercase")
    return Declared(**{name: data[name] for name in names})


def _sentence_transformers(folder: Path) -> Declared:
    modules = read_json(folder / "modules.json")
    # Module paths moved between versions; the class name at their end did not.
    kinds = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    names = [kind for kind, _ in kinds]
    found = Declared(
        normalize="Normalize" in names,
        foreign=tuple(name for name in names if name not in _KNOWN_MODULES),
    )
    for kind, path in kinds:
        if kind == "Pooling":
            found = replace(found, pooling=_mode(read_json(folder / path / "config.json")))
    settings = folder / "sentence_bert_config.json"
    if settings.is_file():
        data = read_json(settings)
        lowercase = bool(data.get("do_lower_case"))
        found = replace(found, max_length=data.get("max_seq_length"), lowercase=lowercase)
    return found


def _mode(config: dict[str, Any]) -> str:
    """The pooling's name; several modes, which are concatenated there, are joined by `+`."""
    if "pooling_mode" in config:  # since version 6: a name or a list of names
        mode = config["pooling_mode"]
        return mode if isinstance(mode, str) else "+".join(mode)
    return "+".join(mode for key, mode in _OLD_MODES.items() if config.get(key)) or "mean"
