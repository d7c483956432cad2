"""The parts of `dataset=mix`: each a data set and a loss of its own, by preset or in full."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

from embedrun.config.check import nearest
from embedrun.errors import ConfigError
from embedrun.files import Plain

NAME, PARTS = "mix", "dataset.parts"
SPLITS_SCORED = ("all", "dev", "test", "none")
# What a part has beside the options of its data set.
OF_PART = ("dataset", "loss", "share", "evaluation", "prompts", "roles")


def is_mix(dataset: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the options of a data set are those of a mixture."""
    return isinstance(dataset, Mapping) and dataset.get("name") == NAME


def parts_of(dataset: object) -> dict[str, Plain]:
    """The parts of a mixture by name, as far as they are mappings; none of any other data set."""
    parts = dataset.get("parts") if is_mix(dataset) else None
    items = parts.items() if isinstance(parts, Mapping) else ()
    return {str(name): part for name, part in items if isinstance(part, Mapping)}


def data_sets(dataset: Plain) -> dict[str, Plain]:
    """The options of the data set of each part; of no mixture the options themselves, under ''."""
    if not is_mix(dataset):
        return {"": dataset}
    return {name: part.get("dataset") or {} for name, part in parts_of(dataset).items()}


def alone(config: Plain) -> Iterator[tuple[str, Plain]]:
    """The configuration of each part as if it were the only one, by name; of no mixture itself, under ''."""
    if not is_mix(config.get("dataset")):
        yield "", config
    shared = {key: (config.get("loss") or {}).get(key) for key in ("matryoshka", "layers")}
    for name, part in parts_of(config.get("dataset")).items():
        yield name, {**config, "dataset": part.get("dataset"), "loss": {**shared, **(part.get("loss") or {})}}


def placed(part: str, problem: str) -> str:
    """What is wrong with a part, by the options of the mixture: those of its data set stand in the part."""
    group = problem.partition(":")[0].partition(".")[0]
    if not part or group not in ("dataset", "loss"):
        return problem
    return f"{PARTS}.{part}" + (problem.removeprefix("dataset") if group == "dataset" else f".{problem}")


def expanded(parts: object, preset: Callable[[str, str | None, Plain], Plain]) -> dict[str, Plain]:
    """Every part with its data set and its loss in full.

    `preset` gives a choice of the group `dataset` with the options of the part, or of `loss` beside the data
    set of the part; None is the loss of the run. A mapping stands for itself.

    Raises:
        ConfigError: with what is no part.
    """
    if not isinstance(parts, Mapping):
        raise ConfigError(f"dataset.parts: expected parts by name, got {parts!r}")
    problems, full = [], {}
    for name, part in parts.items():
        if part is None:  # left out
            continue
        if not isinstance(part, Mapping) or not isinstance(part.get("dataset"), str | Mapping):
            hint = nearest(str(next(iter(part), "")), OF_PART) if isinstance(part, Mapping) else ""
            problems.append(
                f"dataset.parts.{name}: expected a data set and a loss, as {{dataset: stsb, loss: angle}}, "
                f"got {part!r}{hint}"
            )
            continue
        options = {key: value for key, value in part.items() if key not in OF_PART}
        dataset, terms = part["dataset"], part.get("loss")
        dataset = preset("dataset", dataset, options) if isinstance(dataset, str) else {**dataset, **options}
        terms = terms if isinstance(terms, Mapping) else preset("loss", terms, dataset)
        rest = {key: part[key] for key in OF_PART[2:] if part.get(key) is not None}
        if "roles" in rest:
            dataset = {**dataset, "roles": rest.pop("roles")}
        full[str(name)] = {"dataset": dataset, "loss": terms, **rest}
    if problems:
        raise ConfigError(problems)
    return full
