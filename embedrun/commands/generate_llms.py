"""The language models of a configuration: found and with their keys, but not loaded."""

import os
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from embedrun.config.options import GenerateConfig, LlmConfig
from embedrun.dataset.generation.llm import Llm
from embedrun.dataset.generation.llm_http import HttpLlm, key_problem
from embedrun.errors import DataError


def missing(config: GenerateConfig) -> list[str]:
    """What the language models lack on this machine: folders, hub models, keys."""
    problems = []
    for number, llm in enumerate(config.llms):
        if llm.kind == "local":
            problems += _not_found(llm)
        elif llm.key_variable is not None:
            where = f"llms[{number}].key_variable: the environment variable {llm.key_variable}"
            key = os.environ.get(llm.key_variable)
            if key is None:
                problems.append(f"{where} is not set; export it, or give key_variable: null to send no key")
            elif problem := key_problem(key):
                problems.append(f"{where}: {problem}")
    return problems


def unguarded(config: GenerateConfig) -> list[str]:
    """A warning for each key that would go over the network in the clear."""
    return [
        f"warning: {llm.url} is not https: the key in {llm.key_variable} and every text travel in the clear"
        for llm in config.llms
        if llm.url is not None and llm.key_variable is not None and _in_the_clear(llm.url)
    ]


def make(config: GenerateConfig, tell: Callable[[str], None]) -> list[Llm]:
    """The language models in the order of the configuration.

    Args:
        config: checked, with nothing `missing`.
        tell: gets a line for each request that is tried again.

    Raises:
        DataError: if a model's files cannot be read.
    """
    return [_local(config, llm) if llm.kind == "local" else _http(config, llm, tell) for llm in config.llms]


def _local(config: GenerateConfig, llm: LlmConfig) -> Llm:
    from pathlib import Path

    from embedrun import backbone, gpu
    from embedrun.dataset.generation.llm_local import LocalLlm

    compute = gpu.start(config.gpu)
    name = llm.name or ""
    folder = Path(name).expanduser()
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


def _http(config: GenerateConfig, llm: LlmConfig, tell: Callable[[str], None]) -> Llm:
    return HttpLlm(
        url=llm.url or "",
        model=llm.model or "",
        key=os.environ[llm.key_variable] if llm.key_variable is not None else None,
        max_new_tokens=llm.max_new_tokens,
        temperature=llm.temperature,
        seed=llm.seed,
        parallel=llm.parallel or 4,
        retries=config.retries,
        timeout=config.timeout,
        tell=tell,
    )


def _not_found(llm: LlmConfig) -> list[str]:
    from embedrun import backbone

    try:
        backbone.locate(llm.name or "", llm.revision)
    except DataError as fault:
        return fault.problems
    return []


def _in_the_clear(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return parts.scheme == "http" and not here
