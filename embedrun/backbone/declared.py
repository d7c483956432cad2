"""What a model folder says of its own use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from embedrun import files
from embedrun.config import REQUIRED, BackboneConfig, Checker
from embedrun.config.options import option
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain
from embedrun.prompt import PLACE, Prompt

T = TypeVar("T")
_PACKED = "bitsandbytes"  # of qlora
_WAY_ON = "correct the file, copy or download the folder again, or name another"


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


def part(path: Path, schema: type[T], data: Plain) -> T:
    """The keys of a file that a schema knows; others are ignored.

    Raises:
        KeyError: if a required key is missing.
        AttributeError: if the file holds no mapping.
        DataError: as `held` does.
    """
    options, given = fields(schema), data.keys()  # type: ignore[arg-type]  # of a dataclass
    wanted = [one.name for one in options if one.name in given or one.default == REQUIRED]
    return held(path, schema, {name: data[name] for name in wanted})


def held(path: Path, schema: type[T], data: Plain, under: str = "") -> T:
    """What a file says, validated against the types and ranges of a dataclass of options.

    `under` is the key that the data stands under, with a trailing dot, for the messages.

    Raises:
        DataError: with every unknown key and every invalid value.
    """
    checker = Checker()
    built = checker.build(schema, data)
    if built is None:
        advice = "correct the file, or name another model"
        raise DataError([f"{path}: {under}{problem}; {advice}" for problem in checker.problems])
    return built


SCHEMA = 2  # of embedrun.json
AS_TRAINED = 1  # the same keys, but the length is that of training, at which earlier versions also scored
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
# Where sentence-transformers looks for the length, in its order: old versions named the file by the model.
_SETTINGS = [
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
]


@dataclass(frozen=True)
class Declared:
    """How the files of a model want it used; None where they say nothing.

    Args:
        pooling: our name, or what the files call a pooling that we do not have.
        first_layer: of ``first_last_mean``.
        padded_to: of the ``_legacy`` poolings, tokens.
        head: folder with the weights of the layer behind ``cls_mlp``.
        max_length: tokens.
        as_trained: whether that is the length of the training texts, at which earlier versions also scored.
        foreign: modules between tokens and vector that are not ours, ``["Dense"]``.
        named: prompts that sentence-transformers puts before a text on request, by name.
        files: the file that says it, by the attribute's name.
    """

    pooling: str | None = None
    first_layer: int | None = None
    normalize: bool | None = None
    max_length: int | None = None
    as_trained: bool = False
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
    except (KeyError, TypeError, AttributeError, OSError) as fault:
        raise DataError(
            f"{folder}: its pooling files have an unknown format ({type(fault).__name__}: {fault}); "
            "download the folder again, or name another"
        ) from fault


def read_json(path: Path) -> Any:
    """A JSON file's content; DataError if it is not readable, or has a name twice with different values."""
    try:
        return files.read_json(path)
    except (OSError, ValueError) as fault:
        raise DataError(f"{path}: not readable as JSON: {fault}; {_WAY_ON}") from fault


def read_mapping(path: Path) -> Plain:
    """As `read_json`; DataError if it holds anything but a mapping, too."""
    data = read_json(path)
    if not isinstance(data, dict):
        kind = "nothing" if data is None else f"a {type(data).__name__}"
        raise DataError(f"{path}: holds {kind} where names and values are expected; {_WAY_ON}")
    return data


def read_config(folder: Path) -> Plain:
    """The `config.json` of a model folder, which may name no code.

    transformers would load an attention that is no word of its own from the hub, as code.

    Raises:
        DataError: naming the key; and as `read_mapping` does.
    """
    path = folder / "config.json"
    config = read_mapping(path)
    if found := list(_depths(config, "")):
        where, value = found[0]
        raise DataError(
            f"{path}: {where}: {value!r} is no number of layers up to {_MOST_LAYERS:,}; {_WAY_ON}"
        )
    if found := list(_foreign_kernels(config, "")):
        raise DataError(
            [
                f"{path}: {where}: {value!r} is none of {', '.join(words)}, and may be code to fetch from "
                "the hub, which is never run; remove the key, backbone.attention decides"
                for where, value, words in found
            ]
        )
    if (packed := config.get("quantization_config")) is not None:
        _check_packed(path, packed)
    return config


def _check_packed(path: Path, packed: object) -> None:
    """Refuse weights in a format of few bits that is not ours: it needs kernels of its own to be loaded."""
    said = packed if isinstance(packed, dict) else {}
    unnamed = said.get("load_in_4bit") or said.get("load_in_8bit")  # as bitsandbytes once wrote it
    method = said.get("quant_method", _PACKED if unnamed else None)
    if method != _PACKED:
        raise DataError(
            f"{path}: quantization_config.quant_method: {method!r} is a format of few bits that embedrun "
            f"neither loads nor trains; {_PACKED} is read, on CUDA. Name the same model in fp32, fp16 or "
            "bf16; for training in 4 bits pass backbone.adapter.quantize=nf4 with that"
        )


# By the end of the key: what it may say. Of experts, these are the words of transformers for code of its own.
_IMPLEMENTATIONS = {
    "attn_implementation": get_args(BackboneConfig.__annotations__["attention"]),
    "experts_implementation": ("eager", "batched_mm", "grouped_mm"),
}


_MOST_LAYERS = 1_000  # of any kind; making a model of very many would never end


def _depths(data: object, path: str) -> Iterator[tuple[str, object]]:
    """Numbers of layers that no model has, with their keys; also of a model's parts."""
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        if key.endswith(("layers", "n_layer")) and isinstance(value, int | float) and value > _MOST_LAYERS:
            yield f"{path}{key}", value
        yield from _depths(value, f"{path}{key}.")


def _foreign_kernels(data: object, path: str) -> Iterator[tuple[str, object, tuple[str, ...]]]:
    """Implementations that are not ours: the key, its value, and what it may be; also of a model's parts."""
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        where = f"{path}{key}"
        words = _IMPLEMENTATIONS.get(key.lstrip("_").removesuffix("_internal"))
        if words is None:
            yield from _foreign_kernels(value, f"{where}.")
            continue
        # One for all, or one for each part of the model.
        named = value.values() if isinstance(value, dict) else [value]
        yield from ((where, one, words) for one in named if one is not None and one not in words)


def _own(path: Path) -> Declared:
    data = read_mapping(path)
    if data.get("schema") not in (SCHEMA, AS_TRAINED):
        raise DataError(f"{path}: schema {data.get('schema')!r}, and this version of embedrun reads {SCHEMA}")
    says = part(path, Own, data)
    return Declared(
        pooling=says.pooling,
        first_layer=says.first_layer,
        normalize=says.normalize,
        max_length=says.max_length,
        as_trained=data["schema"] == AS_TRAINED,
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
        raise DataError(f"{folder / 'modules.json'}: holds no list of modules; {_WAY_ON}")
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
    settings = next((file for name in _SETTINGS if (file := folder / name).is_file()), None)
    if settings is not None:
        says = part(settings, Settings, read_mapping(settings))
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
    return path, part(path, Prompts, read_mapping(path) if path.is_file() else {})


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
