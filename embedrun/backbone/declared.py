"""What a model folder says of its own use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from embedrun.config import Checker
from embedrun.config.options import option
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, as_written, read_json
from embedrun.pooling import ACTIVATIONS, SKIPPING
from embedrun.prompts import PLACE, Prompt

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
    dense: list[str] | None = option(None, unit="folders, of layers behind the pooling")
    prompt: str | None = option(None, unit="template")
    text_edit: str | None = option(None, unit="name")
    prompts: dict[str, str] | None = option(None, unit="templates by role")
    skip_prompt: bool = option(False, unit="whether pooling leaves the tokens of the prompt out")


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
    known = {entry.name for entry in fields(schema)}  # type: ignore[arg-type]  # of a dataclass
    return held(path, schema, {key: value for key, value in read_mapping(path).items() if key in known})


def held(path: Path, schema: type[T], data: Plain, under: str = "") -> T:
    """What a file says, validated against the types and ranges of a dataclass of options.

    `under` is the key that the data stands under, with a trailing dot, for the messages.
    """
    checker = Checker()
    built = checker.build(schema, data)
    if built is None:
        raise DataError([f"{path}: {under}{problem}; {_NEXT_STEP}" for problem in checker.problems])
    return built


SCHEMA = 2  # of embedrun.json
OWN_FILE, RUN_FILE = "embedrun.json", "config.yaml of its run"

# Our names of the modes of sentence-transformers' Pooling, by their key in its old configuration files.
_OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last_token",
}
_NEW_MODES = {"weightedmean": "weighted_mean", "lasttoken": "last_token"}  # others have our names
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_SETTINGS = "sentence_*_config.json"  # old versions of sentence-transformers named it by the model
_PROMPTS = "config_sentence_transformers.json"
_ROLE_NAMES = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}  # as its methods look for them


@dataclass(frozen=True)
class Declared:
    """How the files of a model want it used; None where they say nothing.

    Args:
        pooling: our name, or what the files call a pooling that we do not have.
        first_layer: of ``first_last_mean``.
        padded_to: of the ``_legacy`` poolings, tokens.
        head: folder with the weights of the layer behind ``cls_mlp``.
        dense: folders of the `Dense` modules behind the pooling, in order.
        max_length: tokens.
        foreign: modules between tokens and vector that are not ours, ``["Dense"]``.
        named: prompts that sentence-transformers puts before a text on request, by name.
        by_role: prompts of queries and documents, by role.
        skip_prompt: whether pooling leaves the tokens before a text out.
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
    dense: tuple[Path, ...] = ()
    prompt: Prompt | None = None
    named: Mapping[str, str] = field(default_factory=dict)
    by_role: Mapping[str, Prompt | None] = field(default_factory=dict)
    skip_prompt: bool = False
    files: Mapping[str, str] = field(default_factory=dict, compare=False)  # where it is said, not what

    @property
    def is_ours(self) -> bool:
        """Whether embedrun wrote the length: that at which the model is to be scored."""
        return self.max_length is not None and self.files.get("max_length") in (OWN_FILE, RUN_FILE)


def read(folder: Path) -> Declared:
    """What `embedrun.json` says, or else the files of sentence-transformers, or else nothing."""
    ours, modules = folder / OWN_FILE, folder / "modules.json"
    if ours.is_file():
        declared = _embedrun(ours)
    elif modules.is_file():
        with as_written(modules, "a list of modules with their files", _NEXT_STEP):
            declared = _sentence_transformers(folder, read_json(modules))
    else:
        return Declared()
    prompts = _prompts(folder).prompts or {}
    named = {name: words for name, words in prompts.items() if words}
    by_role = declared.by_role or {
        role: _prompt(folder / _PROMPTS, named[name] + PLACE)
        for role, names in _ROLE_NAMES.items()
        for name in [name for name in names if name in named][:1]
    }
    return replace(declared, named=named, by_role=by_role)


def read_mapping(path: Path) -> Plain:
    """The names and values of a JSON file; DataError if it is not readable or holds anything else."""
    with as_written(path, "JSON with names and values", _NEXT_STEP):
        return dict(read_json(path))


# What a configuration may name; the last two are transformers' own code for experts.
_IMPLEMENTATIONS = (None, "eager", "sdpa", "flash_attention_2", "batched_mm", "grouped_mm")


def read_config(folder: Path) -> Plain:
    """The `config.json` of a model folder, which may name no code.

    transformers would load an attention that is no word of its own from the hub, as code.
    """
    path = folder / "config.json"
    config = read_mapping(path)
    problems = [
        f"{key}: {name!r} is none of {', '.join(filter(None, _IMPLEMENTATIONS))}, and may be code to fetch "
        "from the hub, which is never run; remove the key, backbone.attention decides"
        for key, name in _implementations(config)
        if name not in _IMPLEMENTATIONS
    ]
    few_bits = config.get("quantization_config")
    if few_bits and (not isinstance(few_bits, dict) or few_bits.get("quant_method") != "bitsandbytes"):
        problems.append(
            "quantization_config: of the formats of few bits, embedrun neither loads nor trains any but that "
            "of bitsandbytes, on CUDA; name the same model in fp32, fp16 or bf16"
        )
    if problems:
        raise DataError([f"{path}: {problem}" for problem in problems])
    return config


def _implementations(config: Plain) -> Iterator[tuple[str, object]]:
    for key, value in config.items():
        if isinstance(value, dict):
            within = value.items() if key.removesuffix("_internal").endswith("_implementation") else ()
            yield from ((key, name) for _, name in within)
            yield from _implementations(value)
        elif key.removesuffix("_internal").endswith("_implementation"):
            yield key, value


def _embedrun(path: Path) -> Declared:
    if (schema := read_mapping(path).get("schema")) != SCHEMA:
        raise DataError(f"{path}: schema {schema!r}, and this version of embedrun reads {SCHEMA}")
    says = vars(part(path, Own))
    head, dense, template, text_edit, prompts = (
        says.pop(name) for name in ("head", "dense", "prompt", "text_edit", "prompts")
    )
    return Declared(
        **says,
        head=path.parent / head if head else None,
        dense=tuple(path.parent / place for place in dense or ()),
        prompt=_prompt(path, template, text_edit),
        by_role={
            role: None if words == PLACE else _prompt(path, words) for role, words in (prompts or {}).items()
        },
        files=dict.fromkeys(("pooling", "normalize", "max_length", "prompt"), path.name),
    )


def _prompt(path: Path, template: str | None, text_edit: str | None = None) -> Prompt | None:
    try:
        return None if template is None else Prompt(template, text_edit)
    except ConfigError as fault:  # a file's, not the user's
        raise DataError([f"{path}: {problem}" for problem in fault.problems]) from fault


def _sentence_transformers(folder: Path, modules: Any) -> Declared:
    # Module paths moved between versions; the class name at their end did not.
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    places = {kind: folder / module["path"] for kind, module in zip(kinds, modules, strict=True)}
    files, says = {"normalize": "modules.json"}, Settings()
    for settings in sorted(folder.glob(_SETTINGS))[:1]:
        says = part(settings, Settings)
        files["max_length"] = settings.name
    declared = Declared(
        normalize="Normalize" in kinds,
        max_length=says.max_seq_length,
        lowercase=bool(says.do_lower_case),
        foreign=tuple(kind for kind in kinds if kind not in _KNOWN_MODULES),
        prompt=_prefix(folder),
    )
    if "Pooling" in places:
        place = places["Pooling"] / "config.json"
        dense = _dense(folder, modules, kinds)
        head = dense[0] if len(dense) == 1 and _is_head(dense[0]) else None
        declared = _pooled(declared, read_mapping(place), head)
        if dense and declared.head is None:
            declared = replace(declared, dense=dense, foreign=())
        files["pooling"] = place.relative_to(folder).as_posix()
    if declared.prompt is not None:
        files["prompt"] = _PROMPTS
    return replace(declared, files=files)


def _pooled(declared: Declared, config: Plain, head: Path | None) -> Declared:
    """The same with the pooling of a `Pooling` module; ``cls`` with a `head` behind it is ``cls_mlp``."""
    pooling = _mode(config)
    if head is not None and pooling == "cls":
        declared, pooling = replace(declared, head=head, foreign=()), "cls_mlp"
    skips = config.get("include_prompt") is False
    if skips and pooling not in SKIPPING:
        return replace(declared, prompt=None, pooling=f"{pooling} without the tokens of the prompt")
    return replace(declared, pooling=pooling, skip_prompt=skips)


def _prompts(folder: Path) -> Prompts:
    path = folder / _PROMPTS
    return part(path, Prompts) if path.is_file() else Prompts()


def _prefix(folder: Path) -> Prompt | None:
    """What sentence-transformers puts before every text, if the files name it."""
    says = _prompts(folder)
    words = (says.prompts or {}).get(says.default_prompt_name or "")
    return _prompt(folder / _PROMPTS, words + PLACE) if words else None


def _mode(config: Plain) -> str:
    """The pooling's name; several modes, which are concatenated there, are joined by `+`."""
    mode = config.get("pooling_mode")  # since version 6: a name or a list of names
    if mode is None:
        modes = [ours for key, ours in _OLD_MODES.items() if config.get(key)] or ["mean"]
    else:
        modes = [_NEW_MODES.get(name, name) for name in ([mode] if isinstance(mode, str) else mode)]
    return "+".join(modes)


def _dense(folder: Path, modules: Any, kinds: list[str]) -> tuple[Path, ...]:
    """The folders of `Dense` modules right behind the pooling; none if other modules are foreign as well."""
    rest = kinds[2:-1] if kinds[-1] == "Normalize" else kinds[2:]
    if kinds[:2] != ["Transformer", "Pooling"] or {*rest} != {"Dense"}:
        return ()
    places = tuple(folder / module["path"] for module in modules[2 : 2 + len(rest)])
    return places if all(map(_is_dense, places)) else ()


def _is_head(dense: Path) -> bool:
    """Whether a `Dense` module is a layer like that of ``cls_mlp``: tanh of a square one."""
    config = read_mapping(dense / "config.json")
    square = config["in_features"] == config["out_features"] and config.get("bias", True)
    return bool(square and activation_of(config) == "Tanh")


def _is_dense(place: Path) -> bool:
    """Whether a folder has a `Dense` module of the pooled vector, with an activation that we have."""
    if not (place / "model.safetensors").is_file():
        return False
    config = read_mapping(place / "config.json")
    ends = {config.get(name) for name in ("module_input_name", "module_output_name")}
    plain = not config.get("use_residual") and ends <= {None, "sentence_embedding"}
    return plain and activation_of(config) in ACTIVATIONS


def activation_of(config: Plain) -> str:
    """The name of the activation of a `Dense` module, as torch's class has it."""
    return str(config.get("activation_function", "Tanh")).rpartition(".")[2]
