"""What files of a model may say on its use, and the refusal of what they may not."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from embedrun.config import REQUIRED, Checker
from embedrun.config.options import option
from embedrun.errors import DataError

T = TypeVar("T")


@dataclass
class Own:
    """Of `embedrun.json`; what has a default is not in every file of this schema."""

    pooling: str | None = option(unit="our name")
    first_layer: Literal[0, 1] | None = option(unit="layer, of first_last_mean")
    normalize: bool | None = option(unit="whether vectors are scaled to length 1")
    max_length: int | None = option(unit="tokens", at_least=4)
    lowercase: bool = option(unit="whether texts are lower-cased")
    padded_to: int | None = option(None, unit="tokens, of the _legacy poolings", at_least=1)
    head: str | None = option(None, unit="folder, of cls_mlp")
    prompt: str | None = option(None, unit="template")
    text_edit: str | None = option(None, unit="name")


@dataclass
class Settings:
    """Of `sentence_bert_config.json` of sentence-transformers."""

    max_seq_length: int | None = option(None, unit="tokens", at_least=4)
    do_lower_case: bool | None = option(None, unit="whether texts are lower-cased")


@dataclass
class Prompts:
    """Of `config_sentence_transformers.json`."""

    prompts: dict[str, str | None] | None = option(None, unit="words before a text, by name")
    default_prompt_name: str | None = option(None, unit="name of those before every text")


def part(path: Path, schema: type[T], data: Mapping[str, Any]) -> T:
    """The keys of a file that a schema knows; others are passed over.

    Raises:
        KeyError: if one is not there that every file has.
        AttributeError: if the file holds no mapping.
        DataError: as `held` does.
    """
    options, given = fields(schema), data.keys()  # type: ignore[arg-type]  # of a dataclass
    wanted = [one.name for one in options if one.name in given or one.default == REQUIRED]
    return held(path, schema, {name: data[name] for name in wanted})


def held(path: Path, schema: type[T], data: Mapping[str, Any], under: str = "") -> T:
    """What a file says, held to the types and ranges of a dataclass.

    Args:
        path: of the file.
        schema: the dataclass, of options.
        data: of the file.
        under: the key that the data stands under, with a dot behind it.

    Raises:
        DataError: with every key that is not known, or has a value that it cannot have.
    """
    checker = Checker()
    built = checker.build(schema, data)
    if built is None:
        advice = "correct the file, or name another model"
        raise DataError([f"{path}: {under}{problem}; {advice}" for problem in checker.problems])
    return built
