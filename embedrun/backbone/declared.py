"""What a model folder says of its own use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from embedrun import files
from embedrun.config import Checker
from embedrun.config.options import option
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain
from embedrun.prompt import PLACE, Prompt

T = TypeVar("T")
_NEXT_STEP = "correct the file, copy or download the folder again, or name another"


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


def part(path: Path, schema: type[T]) -> T:
    """The keys of a file that a schema knows; others are ignored. DataError as of `held`."""
    known = {one.name for one in fields(schema)}  # type: ignore[arg-type]  # of a dataclass
    return held(path, schema, {key: value for key, value in read_mapping(path).items() if key in known})


def held(path: Path, schema: type[T], data: Plain, under: str = "") -> T:
    """What a file says, validated against the types and ranges of a dataclass of options.

    `under` is the key that the data stands under, with a trailing dot, for the messages.

    Raises:
        DataError: with every unknown key and every invalid value.
    """
    checker = Checker()
    built = checker.build(schema, data)
    if built is None:
        raise DataError([f"{path}: {under}{problem}; {_NEXT_STEP}" for problem in checker.problems])
    return built


SCHEMA = 2  # of embedrun.json
OWN_FILE, RUN_FILE = "embedrun.json", "config.yaml of its run"

# Modes of sentence-transformers' Pooling, by their key in its old configuration files.
_OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# Modes that have another name here.
_OURS = {"weightedmean": "weighted_mean", "lasttoken": "last_token"}
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_SETTINGS = "sentence_*_config.json"  # old versions of sentence-transformers named it by the model


@dataclass(frozen=True)
class Declared:
    """How the files of a model want it used; None where they say nothing.

    Args:
        pooling: our name, or what the files call a pooling that we do not have.
        first_layer: of ``first_last_mean``.
        padded_to: of the ``_legacy`` poolings, tokens.
        head: folder with the weights of the layer behind ``cls_mlp``.
        max_length: tokens.
        foreign: modules between tokens and vector that are not ours, ``["Dense"]``.
        named: prompts that sentence-transformers puts before a text on request, by name.
        files: the file that says it, by the attribute's name.
    """

    pooling: str | None = None
    first_layer: int | None = None
    normalize: bool | None = None
    max_length: int | None = None
    foreign: tuple[str, ...] = ()
    lowercase: bool = False
    padded_to: int | None = None
    head: Path | None = None
    prompt: Prompt | None = None
    named: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict, compare=False)  # where it is said, not what

    @property
    def is_ours(self) -> bool:
        """Whether embedrun wrote the length: that at which the model is to be scored."""
        return self.files.get("max_length") in (OWN_FILE, RUN_FILE)


def read(folder: Path) -> Declared:
    """What `embedrun.json` says, or else the files of sentence-transformers, or else nothing.

    Raises:
        DataError: for a file that is unreadable, of an unknown form, or of a later version of embedrun.
    """
    own = folder / OWN_FILE
    if not own.is_file() and not (folder / "modules.json").is_file():
        return Declared()
    try:
        found = _own(own) if own.is_file() else _sentence_transformers(folder)
        return replace(found, named=_named(folder))
    except (KeyError, TypeError, AttributeError) as fault:
        raise DataError(
            f"{folder}: its pooling files have an unknown format ({type(fault).__name__}: {fault}); "
            f"{_NEXT_STEP}"
        ) from fault


def read_json(path: Path) -> Any:
    """A JSON file's content; DataError if it is not readable, or has a name twice with different values."""
    try:
        return files.read_json(path)
    except (OSError, ValueError) as fault:
        raise DataError(f"{path}: not readable as JSON: {fault}; {_NEXT_STEP}") from fault


def read_mapping(path: Path) -> Plain:
    """As `read_json`; DataError if it holds anything but a mapping, too."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise DataError(f"{path}: holds no names and values; {_NEXT_STEP}")
    return data


# What a configuration may name; the last two are transformers' own code for experts.
_IMPLEMENTATIONS = ("eager", "sdpa", "flash_attention_2", "batched_mm", "grouped_mm")


def read_config(folder: Path) -> Plain:
    """The `config.json` of a model folder, which may name no code.

    transformers would load an attention that is no word of its own from the hub, as code.

    Raises:
        DataError: naming the key; and as `read_mapping` does.
    """
    path = folder / "config.json"
    config = read_mapping(path)
    if foreign := [(key, name) for key, name in _implementations(config) if name not in _IMPLEMENTATIONS]:
        raise DataError(
            [
                f"{path}: {key}: {name!r} is none of {', '.join(_IMPLEMENTATIONS)}, and may be code to fetch "
                "from the hub, which is never run; remove the key, backbone.attention decides"
                for key, name in foreign
            ]
        )
    packed = config.get("quantization_config")
    if packed is not None and (not isinstance(packed, dict) or packed.get("quant_method") != "bitsandbytes"):
        raise DataError(
            f"{path}: quantization_config: a format of few bits that embedrun neither loads nor trains; "
            "bitsandbytes is read, on CUDA. Name the same model in fp32, fp16 or bf16, for training in 4 "
            "bits with backbone.adapter.quantize=nf4"
        )
    return config


def _implementations(config: Plain) -> Iterator[tuple[str, object]]:
    """The implementations that a configuration names, with their keys; also those of a model's parts."""
    for key, value in config.items():
        if key.removesuffix("_internal").endswith("_implementation"):
            # One for all, or one for each part of the model.
            names = value.values() if isinstance(value, dict) else [value]
            yield from ((key, name) for name in names if name is not None)
        elif isinstance(value, dict):
            yield from _implementations(value)


def _own(path: Path) -> Declared:
    if (schema := read_mapping(path).get("schema")) != SCHEMA:
        raise DataError(f"{path}: schema {schema!r}, and this version of embedrun reads {SCHEMA}")
    says = part(path, Own)
    return Declared(
        pooling=says.pooling,
        first_layer=says.first_layer,
        normalize=says.normalize,
        max_length=says.max_length,
        lowercase=says.lowercase,
        padded_to=says.padded_to,
        head=path.parent / says.head if says.head else None,
        prompt=_prompt(path, says.prompt, says.text_edit),
        files=dict.fromkeys(("pooling", "normalize", "max_length", "prompt"), path.name),
    )


def _prompt(path: Path, template: str | None, text_edit: str | None = None) -> Prompt | None:
    try:
        return None if template is None else Prompt(template, text_edit)
    except ConfigError as fault:  # a file's, not the user's
        raise DataError([f"{path}: {problem}" for problem in fault.problems]) from fault


def _sentence_transformers(folder: Path) -> Declared:
    modules = read_json(folder / "modules.json")
    if not isinstance(modules, list):
        raise DataError(f"{folder / 'modules.json'}: holds no list of modules; {_NEXT_STEP}")
    # Module paths moved between versions; the class name at their end did not.
    kinds = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    names = [kind for kind, _ in kinds]
    files = {"normalize": "modules.json"}
    found = Declared(
        normalize="Normalize" in names,
        foreign=tuple(name for name in names if name not in _KNOWN_MODULES),
        files=files,
    )
    for kind, path in kinds:
        if kind == "Pooling":
            mode = _mode(read_mapping(folder / path / "config.json"))
            files["pooling"] = f"{path}/config.json"
            found = replace(found, pooling=mode)
    if found.pooling == "cls" and (head := _head(folder, kinds)):
        foreign = tuple(name for name in found.foreign if name != "Dense")
        found = replace(found, pooling="cls_mlp", head=head, foreign=foreign)
    for settings in sorted(folder.glob(_SETTINGS))[:1]:
        says = part(settings, Settings)
        files["max_length"] = settings.name
        found = replace(found, max_length=says.max_seq_length, lowercase=bool(says.do_lower_case))
    return _with_prefix(folder, kinds, found)


def _with_prefix(folder: Path, kinds: list[tuple[str, str]], found: Declared) -> Declared:
    """The same with the prompt that sentence-transformers puts before every text, if the files name one."""
    path, says = _prompts(folder)
    prefix = (says.prompts or {}).get(says.default_prompt_name or "")
    if not prefix:
        return found
    configs = [read_mapping(folder / place / "config.json") for kind, place in kinds if kind == "Pooling"]
    if any(config.get("include_prompt") is False for config in configs):
        return replace(found, pooling=f"{found.pooling} without the tokens of the prompt")
    files = {**found.files, "prompt": path.name}
    return replace(found, prompt=_prompt(path, prefix + PLACE), files=files)


def _prompts(folder: Path) -> tuple[Path, Prompts]:
    path = folder / "config_sentence_transformers.json"
    return path, part(path, Prompts) if path.is_file() else Prompts()


def _named(folder: Path) -> dict[str, str]:
    """Prompts by name, without empty ones."""
    _, says = _prompts(folder)
    return {name: words for name, words in (says.prompts or {}).items() if words}


def _mode(config: Plain) -> str:
    """The pooling's name; several modes, which are concatenated there, are joined by `+`."""
    if "pooling_mode" in config:  # since version 6: a name or a list of names
        mode = config["pooling_mode"]
        modes = [mode] if isinstance(mode, str) else mode
    else:
        modes = [mode for key, mode in _OLD_MODES.items() if config.get(key)] or ["mean"]
    return "+".join(_OURS.get(mode, mode) for mode in modes)


def _head(folder: Path, kinds: list[tuple[str, str]]) -> Path | None:
    """The folder of a layer like that of ``cls_mlp``: tanh, square, right behind the pooled vector."""
    names = [kind for kind, _ in kinds]
    if names[:3] != ["Transformer", "Pooling", "Dense"] or names.count("Dense") > 1:
        return None
    place = folder / kinds[2][1]
    if not (place / "model.safetensors").is_file():
        return None
    config = read_mapping(place / "config.json")
    plain = not config.get("use_residual") and config.get("module_input_name") in (None, "sentence_embedding")
    square = config["in_features"] == config["out_features"] and config.get("bias", True)
    tanh = str(config.get("activation_function", "Tanh")).rpartition(".")[2] == "Tanh"
    return place if plain and square and tanh else None
