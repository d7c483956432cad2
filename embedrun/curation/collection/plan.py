"""From a composed configuration of `embedrun collect` to checked parts; without network access."""

import ipaddress
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from embedrun.config import Checker
from embedrun.config.options import CollectConfig, SplitsConfig
from embedrun.curation.collection.output import Output
from embedrun.errors import ConfigError
from embedrun.files import Plain, expanded, refuse_unwritable
from embedrun.store import sha256

_REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w.-]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"(gh[a-z]_|github_pat_)\w{20,}")


@dataclass(frozen=True)
class CollectPlan:
    """One checked collection.

    `settings` decide the result, without paths and secrets; the token comes from the environment.
    """

    config: CollectConfig
    output: Output
    settings: Plain
    token: str | None


def plan_collect(plain: Plain, directory: str | None) -> CollectPlan:
    """Check a composed configuration; a run directory that the user named is a fault, too.

    Raises:
        ConfigError: with every fault.
    """
    checker = Checker()
    config = checker.build(CollectConfig, plain)
    problems = checker.problems
    if directory is not None:
        problems.append("hydra.run.dir: collect has no run directory; pass output=DIR")
    if config is None:
        raise checker.refusal()
    problems += [*_repositories(config.repositories), *_api(config.api), *_splits(config.splits)]
    token = _token(config.token_variable, problems)
    if config.cache is not None and expanded(config.cache).is_file():
        problems.append(f"cache: {config.cache!r} is a file; name a folder")
    tokenizer = tokenizer_file(config)
    if tokenizer is not None and not tokenizer.is_file():
        problems.append(
            f"tokenizer: no file {str(tokenizer)!r}; name the folder of a model with tokenizer.json"
        )
    if problems:
        raise checker.refusal()
    output, settings = Output(expanded(config.output)), _settings(config, tokenizer)
    if (fault := output.problem(settings)) is not None:
        raise ConfigError(f"output: {fault}")
    if output.provenance() is None:
        refuse_unwritable("output", output.root)
    if config.refresh and output.provenance() is not None:
        raise ConfigError(
            f"refresh: the collection in {config.output!r} is finished and is not overwritten; name a new "
            f"folder and cache={config.output}/pages"
        )
    return CollectPlan(config, output, settings, token)


def tokenizer_file(config: CollectConfig) -> Path | None:
    """The tokenizer's file, or None where lengths are in words."""
    return None if config.tokenizer is None else expanded(config.tokenizer) / "tokenizer.json"


def _settings(config: CollectConfig, tokenizer: Path | None) -> Plain:
    return {
        "repositories": config.repositories,
        "api": config.api.rstrip("/"),
        "max_issues": config.max_issues,
        "negatives": config.negatives,
        "splits": asdict(config.splits),
        "seed": config.seed,
        "tokenizer": None if tokenizer is None else sha256(tokenizer),
    }


def _repositories(names: list[str]) -> list[str]:
    if not names:
        return ["repositories: none given; pass repositories=[owner/name,...]"]
    problems = [
        f"repositories: {name!r} is not owner/name, as in numpy/numpy"
        for name in names
        if not _REPOSITORY.fullmatch(name) or name.rpartition("/")[2] in (".", "..")
    ]
    lower = [name.lower() for name in names]
    twice = sorted({name for name in lower if lower.count(name) > 1})
    return problems + [f"repositories: {name} is given twice" for name in twice]


def _api(api: str) -> list[str]:
    try:
        parts = urlsplit(api)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return ["api: not an address; expected one like https://api.github.com"]
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        # Not shown: it may hold a secret.
        return ["api: takes no user, password, query or fragment; the token comes from token_variable"]
    if not host or parts.scheme not in ("https", "http"):
        return [f"api: {api!r} is not an address; expected one like https://api.github.com"]
    if parts.scheme == "http" and not _is_loopback(host):
        return [f"api: {api!r} would send the token in the clear; use https"]
    return []


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _splits(splits: SplitsConfig) -> list[str]:
    problems = [
        f"splits.{name}: a share below 1, or a whole number of pairs; got {value:g}"
        for name, value in asdict(splits).items()
        if value > 1 and value != int(value)
    ]
    shares = [value for value in asdict(splits).values() if value < 1]
    if sum(shares) >= 1:
        problems.append(f"splits: dev and test together leave nothing to train on ({sum(shares):g} of all)")
    return problems


def _token(variable: str, problems: list[str]) -> str | None:
    """The token, if there is one; no message ever shows it."""
    if _TOKEN.fullmatch(variable):
        problems.append("token_variable: a token was given; put it into a variable, and give that one's name")
        return None
    if not _VARIABLE.fullmatch(variable):
        problems.append(f"token_variable: {variable!r} is not the name of an environment variable")
        return None
    token = os.environ.get(variable, "").strip()
    if not re.fullmatch(r"[!-~]*", token):
        problems.append(
            f"token_variable: what {variable} holds is not a token (it has blanks or other characters)"
        )
        return None
    return token or None
