"""The configuration of a generation, checked; its language models found, with their keys."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from embedrun import gpu
from embedrun.blocks import Shard
from embedrun.config import Checker, nearest
from embedrun.config.options import GenerateConfig, LlmConfig
from embedrun.curation.endpoint import is_in_the_clear, url_problem, variable_problem
from embedrun.curation.llm import Llm
from embedrun.dataset import views_of
from embedrun.errors import DataError, install_extra
from embedrun.family import build, family_name, without
from embedrun.files import Plain, expanded
from embedrun.rows import views_of_form

if TYPE_CHECKING:
    from embedrun.dataset import DataSet

_OWN = {
    "local": ("name", "revision", "batch_size"),
    "http": ("url", "model", "key_variable", "parallel"),
}
_NEEDED = {"local": ("name", "max_new_tokens", "temperature"), "http": ("url", "model")}


@dataclass(frozen=True)
class GeneratePlan:
    """One checked generation, of the texts of one split of a data set."""

    config: GenerateConfig
    dataset: "DataSet"
    split: str
    shard: Shard


def plan_generate(plain: Plain) -> GeneratePlan:
    """Check a composed configuration.

    Raises:
        ConfigError: with every fault.
    """
    checker = Checker()
    config = checker.build(GenerateConfig, plain)
    dataset, split = _dataset(checker, plain)
    shard = _shard(checker, plain.get("shard", "0/1"))
    _llms(checker, plain.get("llms"))
    if config is not None:
        checker.problems += gpu.problems(config.gpu)
        asks = not config.dry_run and any(llm.kind == "http" for llm in config.llms)
        if asks and find_spec("openai") is None:
            checker.problems.append(f"generate needs the openai package; {install_extra('generate')}")
    if checker.problems or config is None or dataset is None or shard is None:
        raise checker.refusal()
    return GeneratePlan(config, dataset, split, shard)


def _dataset(checker: Checker, plain: Plain) -> "tuple[DataSet | None, str]":
    """The data set, which for an input file is `texts`, and its split."""
    options, file = plain.get("dataset"), plain.get("input")
    if (options is None) == (file is None):
        have = "neither" if file is None else "both"
        checker.problems.append(f"input: give input=FILE or dataset=NAME (such as dataset=stsb), got {have}")
        return None, ""
    split = plain.get("split", "train")
    if file is not None:
        if plain.get("column") is not None:
            checker.problems.append("column: only for dataset=NAME; an input file has no columns")
        return build(checker, "dataset", "texts", {"path": file}, "input"), "train"
    if not isinstance(options, Mapping) or "name" not in options:
        checker.problems.append("dataset.name: no value given; choose dataset=...")
        return None, ""
    dataset = build(checker, "dataset", options["name"], without(options, "name"), "dataset")
    if dataset is not None:
        _split(checker, dataset, split, plain.get("column"))
    return dataset, split


def _split(checker: Checker, dataset: "DataSet", split: object, column: object) -> None:
    name = family_name(dataset)
    if split not in dataset.splits:
        given = ", ".join(dataset.splits)
        checker.problems.append(f"split: dataset={name} has no {split} split (it has: {given})")
        return
    # Where the graded splits have a form of their own, the rows themselves say what columns they have.
    columns = views_of_form(dataset.form, views_of(dataset)).values()
    if column is not None and column not in columns and split not in getattr(dataset, "graded", ()):
        checker.problems.append(
            f"column: dataset={name} has no {column!r}{nearest(str(column), columns)} "
            f"(it has: {', '.join(columns)})"
        )


def _shard(checker: Checker, text: object) -> Shard | None:
    try:
        return Shard.parse(text) if isinstance(text, str) else None
    except ValueError as fault:
        checker.problems.append(f"shard: {fault}")
        return None


def _llms(checker: Checker, given: object) -> None:
    """The rules that hold between options; the schema has held each against its own."""
    if not isinstance(given, list):
        return
    if not given:
        checker.problems.append("llms: give at least one, such as llms=[{kind: local, name: FOLDER}]")
    seen: list[LlmConfig] = []
    for number, options in enumerate(given):
        # Only what the schema accepts; its faults are reported already.
        llm = Checker().build(LlmConfig, options) if isinstance(options, Mapping) else None
        if llm is None:
            continue
        checker.problems += [f"llms[{number}].{problem}" for problem in _llm(llm)]
        # What is asked of the same model in the same way gives the same answers, wherever it is asked.
        asked = replace(llm, url=None, key_variable=None, parallel=None)
        if asked in seen:
            checker.problems.append(
                f"llms[{number}]: the same model with the same options as one before; leave one of them out"
            )
        seen.append(asked)


def _llm(llm: LlmConfig) -> list[str]:
    problems = [
        f"{name}: only for kind={kind}, and this one is {llm.kind}; leave it out"
        for kind, names in _OWN.items()
        for name in names
        if kind != llm.kind and getattr(llm, name) is not None
    ]
    problems += [
        f"{name}: kind={llm.kind} needs a value" for name in _NEEDED[llm.kind] if getattr(llm, name) is None
    ]
    if llm.url is not None and (problem := url_problem(llm.url, "https://HOST/v1 or http://HOST:PORT/v1")):
        problems.append(f"url: {problem}")
    if llm.key_variable is not None and (problem := variable_problem(llm.key_variable)):
        problems.append(f"key_variable: {problem}")
    return problems


def missing(config: GenerateConfig) -> list[str]:
    """What the language models lack on this machine: folders, hub models, keys."""
    problems = []
    for number, llm in enumerate(config.llms):
        if llm.kind == "local":
            problems += _not_found(llm)
        elif llm.key_variable is not None and llm.key_variable not in os.environ:
            problems.append(
                f"llms[{number}].key_variable: the environment variable {llm.key_variable} is not set; "
                "export it, or give key_variable: null to send no key"
            )
    return problems


def unguarded(config: GenerateConfig) -> list[str]:
    """A warning for each key that would be sent unencrypted."""
    return [
        f"warning: {llm.url} is not https: the key in {llm.key_variable} and every text travel in the clear"
        for llm in config.llms
        if llm.url is not None and llm.key_variable is not None and is_in_the_clear(llm.url)
    ]


def make(config: GenerateConfig) -> list[Llm]:
    """The language models in the order of the configuration, of which nothing is `missing`.

    Raises:
        DataError: if a model's files cannot be read.
    """
    return [_local(config, llm) if llm.kind == "local" else _http(config, llm) for llm in config.llms]


def _local(config: GenerateConfig, llm: LlmConfig) -> Llm:

    from embedrun import backbone
    from embedrun.curation.local import LocalLlm

    compute = gpu.start(config.gpu)
    name = llm.name or ""
    folder = expanded(name)
    return LocalLlm(
        folder=backbone.locate(name, llm.revision),
        # Where a folder lies on this machine is nobody's business, and must not change the output.
        label=folder.resolve().name if folder.exists() else name,
        device=compute.device.type,
        precision=compute.precision,
        max_new_tokens=llm.max_new_tokens or 1,
        temperature=llm.temperature or 0.0,
        seed=llm.seed or 0,
        batch_size=llm.batch_size or 8,
    )


def _http(config: GenerateConfig, llm: LlmConfig) -> Llm:
    from embedrun.curation.http import HttpLlm

    return HttpLlm(
        url=llm.url or "",
        model=llm.model or "",
        key=os.environ[llm.key_variable].strip() if llm.key_variable is not None else None,
        max_new_tokens=llm.max_new_tokens,
        temperature=llm.temperature,
        seed=llm.seed,
        parallel=llm.parallel or 4,
        retries=config.retries,
        timeout=config.timeout,
    )


def _not_found(llm: LlmConfig) -> list[str]:
    from embedrun import backbone

    try:
        backbone.locate(llm.name or "", llm.revision)
    except DataError as fault:
        return fault.problems
    return []
