"""Plain data held against dataclasses and signatures, every fault together with the nearest spelling."""

import difflib
import inspect
import math
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from embedrun.config.options import REQUIRED, declared
from embedrun.errors import ConfigError


def nearest(word: str, choices: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the closest of the choices, or an empty string."""
    return _did_you_mean(_closest(word, choices, 0.6))


def _closest(word: str, choices: Iterable[str], cutoff: float) -> str | None:
    return next(iter(difflib.get_close_matches(word, list(choices), n=1, cutoff=cutoff)), None)


def _did_you_mean(word: str | None) -> str:
    return "" if word is None else f"; did you mean '{word}'?"


# What is typed here, and its names in transformers' TrainingArguments, in sentence-transformers and in the
# scripts around them. Of several for one name, the first counts that the command has.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "training.lr": ("learning_rate",),
    "training.epochs": ("num_train_epochs", "num_epochs", "max_epochs", "epoch"),
    "training.max_steps": ("num_steps", "max_train_steps", "total_steps", "steps"),
    "training.batch_size": ("per_device_train_batch_size", "train_batch_size", "bs"),
    "training.accumulate": ("gradient_accumulation_steps", "grad_accum"),
    "training.micro_batch_size": ("mini_batch_size",),
    "training.warmup_ratio": ("warmup", "warmup_proportion"),
    "training.schedule": ("lr_scheduler_type", "lr_scheduler", "scheduler"),
    "training.clip": ("max_grad_norm", "clip_grad_norm", "gradient_clip_val"),
    "training.evaluate_every": ("eval_steps", "evaluation_steps"),
    "training.save_every": ("save_steps",),
    "training.patience": ("early_stopping_patience", "early_stopping"),
    "training.resume=auto": ("resume_from_checkpoint",),
    "backbone.name": ("model", "model_name_or_path", "model_name", "model_path", "base_model"),
    "backbone.max_length": ("max_seq_length", "max_seq_len", "model_max_length", "max_len"),
    "model": ("model_name_or_path", "model_name", "model_path", "base_model"),
    "max_length": ("max_seq_length", "max_seq_len", "model_max_length", "max_len"),
    "pooling.normalize": ("normalize_embeddings",),
    "gpu.precision=fp16": ("fp16", "use_amp", "amp"),
    "gpu.precision=bf16": ("bf16",),
    "gpu.device=cpu": ("no_cuda", "use_cpu", "cpu"),
    "gpu.processes": ("nproc_per_node", "num_gpus", "n_gpu", "gpus", "world_size"),
    "evaluation.batch_tokens": ("per_device_eval_batch_size", "eval_batch_size"),
    "tracking=wandb": ("report_to", "use_wandb"),
    "seed": ("random_seed", "random_state", "data_seed"),
    "name": ("run_name", "experiment_name"),
    "dataset=pairs dataset.path=FILE": ("train_file", "train_data", "train_dataset", "data_path"),
    "dataset.dev=FILE": ("validation_file", "eval_file", "eval_dataset", "dev_file"),
    "output": ("output_dir", "output_path", "save_dir"),
    "hydra.run.dir=DIR": ("output_dir", "output_path", "save_dir", "logging_dir"),
}


def meant(key: str, paths: Collection[str]) -> str | None:
    """What to type for an option that other tools call `key`; None where it is none of theirs.

    `paths` are the options that the command has, each by its full path.
    """
    word = key.lower().replace("-", "_")
    tops = {path.partition(".")[0] for path in paths} | {"hydra"} if "name" in paths else set()
    for hint in (hint for hint, names in SYNONYMS.items() if word in names):
        option = hint.partition("=")[0]
        if option in paths or ("=" in hint and option.partition(".")[0] in tops):
            return hint
    return None


def option_named(word: str, paths: Collection[str]) -> str | None:
    """The option that a word names: its full path, its last name, or what other tools call it."""
    if word in paths:
        return word
    return next((path for path in paths if path.rpartition(".")[2] == word), None) or meant(word, paths)


def suggest(where: str, paths: Collection[str], siblings: Collection[str] = ()) -> str:
    """`"; did you mean 'training.lr'?"` for what an unknown key may be, as `alike`, or an empty string."""
    return _did_you_mean(alike(where, paths, siblings))


def alike(where: str, paths: Collection[str], siblings: Collection[str] = ()) -> str | None:
    """What an unknown key, by its full path, may have meant; None for nothing.

    It is, in this order, an option of that name in another group, what other tools call so, the nearest
    spelling in the same group, and that in any. `paths` are the options and groups that there are, `siblings`
    the names that may stand in its place, for places that are no options, such as in a list.
    """
    parent, _, key = where.rpartition(".")
    if option := option_named(key, paths):
        return option
    beside = {path.rpartition(".")[2]: path for path in paths if path.rpartition(".")[0] == parent}
    beside |= {name: f"{parent}.{name}" if parent else name for name in siblings}
    if near := _closest(key, beside, 0.6):
        return beside[near]
    words = {path.rpartition(".")[2]: path for path in reversed(list(paths))}
    return words.get(_closest(key, words, 0.7) or "")


T = TypeVar("T")

BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "at_least": ("at least", lambda value, bound: value >= bound),
    "above": ("above", lambda value, bound: value > bound),
    "at_most": ("at most", lambda value, bound: value <= bound),
    "below": ("below", lambda value, bound: value < bound),
}
LARGEST = 2**31 - 1  # of whole numbers without an upper bound of their own
_PLAIN = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def describe(annotation: Any) -> str:
    """What a type accepts, in the user's words."""
    origin = get_origin(annotation)
    if origin is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(describe(part) for part in get_args(annotation))
    if annotation is type(None):
        return "null"
    if origin is list:
        return "a list, each " + describe(get_args(annotation)[0])
    if origin is dict or is_dataclass(annotation):
        return "a mapping"
    return _PLAIN.get(annotation, str(annotation))


class Checker:
    """Collects the faults of one configuration: `problems` has one line for each, in the order found."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._paths: list[str] = []

    def build(self, schema: type[T], data: Mapping[str, Any]) -> T | None:
        """An instance of the dataclass `schema`, or None where a fault was found.

        `data` is composed, plain and resolved, with `"???"` where no value was given.
        """
        before = len(self.problems)
        self._paths = list(options_of(schema))
        built = self._dataclass(schema, data, "")
        return built if len(self.problems) == before else None

    def refusal(self) -> ConfigError:
        """The error that names every fault once."""
        return ConfigError(list(dict.fromkeys(self.problems)))

    def signature(
        self, cls: type, options: Mapping[str, Any], path: str, *, given: Iterable[str] = ()
    ) -> None:
        """Check the options of a class that the YAML names against its constructor.

        `path` is where they stand in the configuration. `given` are parameters that the run fills in; as
        options they are unknown.
        """
        hints = get_type_hints(cls.__init__)
        parameters = {
            name: parameter
            for name, parameter in inspect.signature(cls.__init__).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in given
        }
        for key, value in options.items():
            where = f"{path}.{key}"
            if key in parameters:
                self._value(hints.get(key, Any), value, where)
            else:
                known = ", ".join(parameters) or "none"
                hint = nearest(str(key), parameters)
                self.problems.append(f"{where}: {cls.__name__} has no such option{hint} (it has: {known})")
        for name, parameter in parameters.items():
            if parameter.default is inspect.Parameter.empty and name not in options:
                self.problems.append(f"{path}.{name}: no value given; pass {path}.{name}=...")

    def _dataclass(self, schema: Any, data: Mapping[str, Any], path: str) -> Any:
        hints = get_type_hints(schema)
        known = {item.name: item for item in fields(schema)}
        for key in data:
            if key not in known:
                where = f"{path}.{key}" if path else str(key)
                self.problems.append(f"{where}: unknown key{suggest(where, self._paths, list(known))}")
        values = {}
        for name, item in known.items():
            if name not in data and item.default_factory is not MISSING:
                continue  # the dataclass makes it
            where = f"{path}.{name}" if path else name
            default = REQUIRED if item.default is MISSING else item.default
            value = data.get(name, default)
            values[name] = self._value(hints[name], value, where, item.metadata.get("bounds", {}))
        return schema(**values)

    def _value(
        self, annotation: Any, value: Any, path: str, bounds: Mapping[str, float] = MappingProxyType({})
    ) -> Any:
        """The value as the type wants it; a fault is noted and the value returned as it is."""
        if value == REQUIRED:
            self.problems.append(f"{path}: no value given; pass {path}=...")
            return value
        is_union = get_origin(annotation) in (Union, types.UnionType)
        parts = get_args(annotation) if is_union else (annotation,)
        kind = next((part for part in parts if _fits(part, value)), None)
        if kind is None:
            self._wrong(annotation, value, path)
            return value
        return self._of_kind(kind, value, path, bounds)

    def _of_kind(self, kind: Any, value: Any, path: str, bounds: Mapping[str, float]) -> Any:
        if is_dataclass(kind):
            return self._dataclass(kind, value, path)
        if get_origin(kind) is list:
            (inner,) = get_args(kind)
            return [self._value(inner, item, f"{path}[{index}]") for index, item in enumerate(value)]
        if get_origin(kind) is dict:
            inner = get_args(kind)[1]
            return {key: self._value(inner, item, f"{path}.{key}") for key, item in value.items()}
        if value is None:
            return None
        value = float(value) if kind is float else value
        self._bounds(value, path, bounds)
        return value

    def _wrong(self, annotation: Any, value: Any, path: str) -> None:
        choices = get_args(annotation) if get_origin(annotation) is Literal else ()
        hint = nearest(str(value), map(str, choices))
        self.problems.append(f"{path}: expected {describe(annotation)}, got {value!r}{hint}")

    def _bounds(self, value: Any, path: str, bounds: Mapping[str, float]) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            self.problems.append(f"{path}: expected a finite number, got {value}")
            return
        if isinstance(value, int) and not {"at_most", "below"} & bounds.keys():
            bounds = {**bounds, "at_most": LARGEST}
        broken = [
            f"{BOUNDS[name][0]} {bound}"
            for name, bound in bounds.items()
            if not BOUNDS[name][1](value, bound)
        ]
        if broken:
            self.problems.append(f"{path}: must be {' and '.join(broken)}, got {value}")


def _fits(annotation: Any, value: Any) -> bool:
    origin = get_origin(annotation)
    if annotation is Any:
        return True
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(annotation))
    if origin is dict or is_dataclass(annotation):
        return isinstance(value, Mapping)
    if annotation is float:
        return type(value) in (int, float)
    return type(value) is (origin or annotation)  # true is no whole number


def options_of(schema: type) -> Iterator[str]:
    """The options and groups of a dataclass by their full paths, a group before what it holds."""
    return (path for path, _ in declared(schema))
