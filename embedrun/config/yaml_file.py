"""A configuration in one YAML file of the user: read as overrides, and written from a composition."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedrun.config import presets
from embedrun.config.check import options_of
from embedrun.config.compose import composed
from embedrun.config.options import COMMANDS
from embedrun.config.request import Request, quoted
from embedrun.errors import ConfigError
from embedrun.files import Plain, publish

_OPEN = ("loss.terms", "evaluation.tasks")  # their keys are the user's, and the options of each lie below


def is_file(word: str) -> bool:
    """Whether a word of a command line is a YAML file, not an override."""
    return "=" not in word and word.endswith((".yaml", ".yml"))


def expanded(words: Sequence[str], root: str) -> list[str]:
    """The overrides of a command line, those of a YAML file in its place; what is typed too takes precedence.

    Raises:
        ConfigError: if a file cannot be read.
    """
    typed = {_key(word) for word in words}
    overrides = []
    for word in words:
        if is_file(word):
            overrides += [line for line in overrides_of(Path(word), root) if _key(line) not in typed]
        else:
            overrides.append(word)
    return overrides


def _key(override: str) -> str:
    return override.lstrip("+").partition("=")[0]


def overrides_of(path: Path, root: str) -> list[str]:
    """What a file stands for: the choices of its `defaults:` list, then its options, as overrides of Hydra.

    A group with a word, such as `loss: cosent`, is a choice too. `root` is that of the command in conf/. The
    overrides are held against the rules of safety as typed ones are.

    Raises:
        ConfigError: if the file cannot be read, or holds anything else.
    """
    from omegaconf import OmegaConf  # reads 1e-5 as a number, which YAML 1.1 does not

    if not path.is_file():
        raise ConfigError(f"{path}: no such file; a word that ends in .yaml is a file of options")
    try:
        loaded: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except Exception as fault:  # PyYAML's, OmegaConf's and the file system's have no common class
        reason = " ".join(str(fault).split())
        raise ConfigError(f"{path}: cannot be read as YAML ({reason}); give a file of options") from None
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: expected options as `training: {{lr: 2e-5}}`, got a list")
    groups = {*presets.read(presets.folder(), root).choices, *presets.groups()}
    choices = [_choice(path, entry) for entry in loaded.pop("defaults", []) if entry != "_self_"]
    below = {name.rpartition(".")[0] for name in options_of(COMMANDS[root])} | {*groups, *_OPEN, "hydra"}
    options = []
    for key, value in _flat(loaded, below):
        if key in groups and not isinstance(value, Mapping):
            choices.append(_chosen(key, value))
        elif (
            key == "dataset.name" and value in presets.groups()["dataset"]
        ):  # the options beside it are its own
            choices.append(_chosen("dataset", value))
        else:
            options.append(f"{'++' if key.startswith(_OPEN) else ''}{key}={_value(value)}")
    return [*choices, *options]


def _choice(path: Path, entry: Any) -> str:
    """An entry of a `defaults:` list, in any of the forms that Hydra knows, as an override."""
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise ConfigError(f"{path}: defaults: expected entries as `- loss: angle`, got {entry!r}")
    ((group, choice),) = entry.items()
    return _chosen(re.sub(r"^(override )?/?", "", str(group)), choice)


def _chosen(group: str, choice: Any) -> str:
    plus = "+" if group == "experiment" else ""
    return f"{plus}{group}={_value(choice)}"


def _flat(data: Mapping[Any, Any], below: set[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Options by their dotted names; a mapping that is the value of an option stays whole."""
    for key, value in data.items():
        where = f"{path}{key}"
        is_inner = where in below or where.rpartition(".")[0] in _OPEN
        if isinstance(value, Mapping) and value and is_inner:
            yield from _flat(value, below, f"{where}.")
        else:
            yield where, value


def _value(value: Any) -> str:
    """A value in Hydra's override grammar."""
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{quoted(str(key))}:{_value(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_value, value))}]"
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def write(path: Path, request: Request, meanings: Mapping[str, str]) -> None:
    """Save what a request composes as a file that composes the same, with a comment behind each option.

    The choices of groups come first, then the options that differ from what these choices set. `meanings` has
    what each option is, by its name.

    Raises:
        ConfigError: for what does not compose, and if there is such a file.
    """
    if path.exists():
        raise ConfigError(f"--write: {str(path)!r} exists; give a new name")
    whole = composed(request, strict=True)
    chosen = {group: name for group, name in whole.choices.items() if group != "experiment"}
    usual = presets.read(presets.folder(), request.root).choices
    choices = {group: name for group, name in chosen.items() if name != usual.get(group)}
    plain = composed(replace(request, overrides=tuple(f"{group}={name}" for group, name in choices.items())))
    differing = _differing(whole.config, plain.config)
    lines = [f"# embedrun {request.command} {path.name}"]
    if choices:
        lines += ["defaults:", *(f"  - {group}: {choice}" for group, choice in choices.items())]
    text = "\n".join([*lines, *_written(differing, meanings)]) + "\n"
    try:
        publish(path, text.encode())
    except OSError as fault:
        raise ConfigError(f"--write: {str(path)!r} cannot be written ({fault}); name another") from None
    if composed(replace(request, overrides=tuple(overrides_of(path, request.root)))).config != whole.config:
        path.unlink()
        raise ConfigError("--write: a file cannot delete an option, as ~option does; give a term weight=0")


def _differing(config: Plain, usual: Plain) -> Plain:
    """The options of a configuration that `usual` lacks or has with another value."""
    differing = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and isinstance(usual.get(key), Mapping):
            if inner := _differing(dict(value), usual[key]):
                differing[key] = inner
        elif key not in usual or value != usual[key]:
            differing[key] = value
    return differing


def _written(options: Plain, meanings: Mapping[str, str], path: str = "") -> Iterator[str]:
    """Lines of YAML, a value and its meaning in each."""
    indent = "  " * path.count(".")
    for key, value in options.items():
        where = f"{path}{key}"
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _written(dict(value), meanings, f"{where}.")
        else:
            meaning = f"  # {meanings[where]}" if meanings.get(where) else ""
            yield f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}{meaning}"
