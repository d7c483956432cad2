"""One collection: checked, repositories read, their issues paired, written and shown."""

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedrun import plot
from embedrun.backbone.tokens import tokens_of
from embedrun.config import Checker
from embedrun.config.options import CollectConfig, SplitsConfig
from embedrun.console import Progress, aligned, clean, say
from embedrun.curation import folder
from embedrun.curation.endpoint import is_in_the_clear, url_problem, variable_problem
from embedrun.errors import ConfigError, DataError, install_extra
from embedrun.files import (
    Plain,
    expanded,
    only_writer,
    packed,
    publish,
    sha256,
    to_json,
    to_json_lines,
    whole_folder,
)
from embedrun.runs.directory import Outcome

if TYPE_CHECKING:
    from embedrun.curation.github import Repository
    from embedrun.curation.pairs import Pair

FOLDER = "github_issues"
_SETTINGS, _REPOSITORIES = "collect.json", "repositories"
_COLUMNS = ("text1", "text2", "score", "repository", "number1", "number2")
_LONG = 512  # AnglE, Sec. 4.1, calls longer texts long
_NAME = re.compile(r"[\w-][\w.-]*/(?!\.{1,2}$)[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class CollectPlan:
    """One checked collection.

    `settings` decide the result, without paths and secrets; `tokenizer` is a file, None for lengths in words.
    """

    config: CollectConfig
    output: Path
    settings: Plain
    tokenizer: Path | None


def plan_collect(plain: Plain, directory: str | None) -> CollectPlan:
    """Check a composed configuration, without network; a run directory that the user named is a fault, too.

    Raises:
        ConfigError: with every fault.
    """
    checker = Checker()
    problems = checker.problems
    config = checker.build(CollectConfig, plain)
    folder.refuse_run_directory(checker, "collect", directory)
    if config is None:
        raise checker.refusal()
    problems += _option_problems(config)
    tokenizer = None if config.tokenizer is None else expanded(config.tokenizer) / "tokenizer.json"
    if tokenizer is not None and not tokenizer.is_file():
        problems.append(f"tokenizer: no file {str(tokenizer)!r}; name a model's folder with tokenizer.json")
    if problems:
        raise checker.refusal()
    settings = {
        "repositories": config.repositories,
        "api": config.api.rstrip("/"),
        "max_issues": config.max_issues,
        "negatives": config.negatives,
        "splits": asdict(config.splits),
        "seed": config.seed,
        "tokenizer": None if tokenizer is None else sha256(tokenizer),
    }
    folder.check(output := expanded(config.output), settings, _SETTINGS, kept=_REPOSITORIES)
    return CollectPlan(config, output, settings, tokenizer)


def _option_problems(config: CollectConfig) -> list[str]:
    names = Counter(name.lower() for name in config.repositories)
    problems = [] if names else ["repositories: none given; pass repositories=[owner/name,...]"]
    problems += [
        f"repositories: {name!r} is not owner/name, as in numpy/numpy"
        for name in config.repositories
        if not _NAME.fullmatch(name)
    ]
    problems += [f"repositories: {name} is given twice" for name, count in names.items() if count > 1]
    if problem := url_problem(config.api, "an address like https://api.github.com"):
        problems.append(f"api: {problem}")
    elif is_in_the_clear(config.api):
        problems.append(f"api: {config.api!r} would send the token in the clear; use https")
    if problem := variable_problem(config.token_variable):
        problems.append(f"token_variable: {problem}")
    return problems + _split_problems(config.splits)


def _split_problems(splits: SplitsConfig) -> list[str]:
    problems = [
        f"splits.{name}: a share below 1, or a whole number of pairs; got {value:g}"
        for name, value in asdict(splits).items()
        if value > 1 and value != int(value)
    ]
    if (shares := sum(value for value in asdict(splits).values() if value < 1)) >= 1:
        problems.append(f"splits: dev and test together leave nothing to train on ({shares:g} of all)")
    return problems


def run(plain: Plain, overrides: list[str], directory: str | None) -> Outcome:
    """Collect as a composed configuration says; a finished collection is shown again.

    `overrides` are not used; a run directory that the user named is refused.

    Raises:
        ConfigError: with every fault of the configuration.
        DataError: if a repository is not there, the server refuses, or there are too few duplicates.
    """
    plan = plan_collect(plain, directory)
    data = plan.output / FOLDER
    if data.is_dir():
        say(f"{data} is finished; nothing is fetched")
    else:
        _collect(plan)
    print(table(folder.read(data / folder.PROVENANCE)))
    print(clean(str(data)))
    return Outcome(str(plan.output))


def _collect(plan: CollectPlan) -> None:
    """Read the repositories that were not read yet, make pairs, and write them."""
    try:
        from embedrun.curation.github import connect, find, read
        from embedrun.curation.pairs import make_pairs
    except ImportError as fault:
        raise ConfigError(f"collect needs PyGithub ({fault}); {install_extra('collect')}") from fault

    config, output = plan.config, plan.output
    newest = "" if config.max_issues is None else f".newest-{config.max_issues}"
    files = {
        name: output / _REPOSITORIES / f"{name.lower()}{newest}.jsonl.gz" for name in config.repositories
    }
    output.mkdir(parents=True, exist_ok=True)
    with only_writer(output / FOLDER), Progress("collect", len(files), "repositories") as bar:
        folder.write(output / _SETTINGS, plan.settings)
        token = os.environ.get(config.token_variable, "").strip() or None
        if token is None:
            say(f"no token in {config.token_variable}: GitHub allows 60 requests an hour without one")
        client = connect(config.api, token, timeout=config.timeout, retries=config.retries)
        missing, problems = {}, []
        for name in (name for name, file in files.items() if not file.is_file()):
            try:
                missing[name] = find(client, name)
            except DataError as fault:
                problems += fault.problems
        if problems:
            raise DataError(problems)
        for done, (name, remote) in enumerate(missing.items(), len(files) - len(missing)):
            _keep(files[name], read(remote, name, most=config.max_issues, note=partial(bar.reach, done)))
        bar.reach(len(files))
        repositories = [_load(name, file) for name, file in files.items()]
        pairs = make_pairs(
            repositories, negatives=config.negatives, shares=asdict(config.splits), seed=config.seed
        )
        _write(plan, repositories, pairs)


def _keep(file: Path, repository: "Repository") -> None:
    rows = [{"number": number, "text": text} for number, text in repository.texts.items()]
    last = {"duplicates": repository.duplicates, "counts": repository.counts}
    publish(file, packed(to_json_lines([*rows, last])))


def _load(name: str, file: Path) -> "Repository":
    """A repository that was read before.

    Raises:
        DataError: if its file cannot be read.
    """
    from embedrun.curation.github import Repository

    try:
        *rows, last = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
        texts = {row["number"]: row["text"] for row in rows}
        duplicates = [(left, right) for left, right in last["duplicates"]]
        return Repository(name, texts, duplicates, Counter(last["counts"]))
    except (OSError, EOFError, ValueError, LookupError, TypeError) as fault:
        raise DataError(f"{file}: cannot be read ({fault}); delete it, and it is fetched again") from fault


def _write(
    plan: CollectPlan, repositories: "Sequence[Repository]", pairs: "Mapping[str, Sequence[Pair]]"
) -> None:
    """Write the pairs of each split, with their lengths, and what they were made of; all or nothing."""
    if plan.tokenizer is None:
        unit, count = "words", lambda texts: [len(text.split()) for text in texts]
    else:
        unit, count = "tokens", tokens_of(plan.tokenizer, "tokenizer")
    texts = {repository.name: repository.texts for repository in repositories}
    files, splits, lengths = [], {}, {}
    with whole_folder(plan.output / FOLDER) as aside:
        aside.mkdir()
        for split, rows in pairs.items():
            both = [[texts[row.repository][number] for number in (row.left, row.right)] for row in rows]
            lines = [
                dict(zip(_COLUMNS, (*text, row.score, row.repository, row.left, row.right), strict=True))
                for text, row in zip(both, rows, strict=True)
            ]
            path = aside / f"{split}.jsonl.gz"
            path.write_bytes(packed(to_json_lines(lines)))
            files.append({"path": f"{FOLDER}/{path.name}", "rows": len(rows), "sha256": sha256(path)})
            lengths[split] = np.array(count([text for row in both for text in row]))  # (2 * rows,)
            positive = sum(row.score for row in rows)
            splits[split] = {
                "positive": positive,
                "negative": len(rows) - positive,
                "long_texts": round(100 * float((lengths[split] > _LONG).mean()), 2),
                "median_length": float(np.median(lengths[split])),
            }
        plot.lengths(lengths, unit, _LONG, aside / "lengths.png")
        provenance = {
            "schema": 1,
            "settings": plan.settings,
            "repositories": {repository.name: repository.counts for repository in repositories},
            "length_unit": unit,
            "splits": splits,
            "files": files,
        }
        (aside / folder.PROVENANCE).write_text(to_json(provenance), encoding="utf-8")


def table(provenance: Plain) -> str:
    """Table 1 of the AnglE paper, with the share of long texts of its Sec. 4.1."""
    splits, unit = provenance["splits"], provenance["length_unit"]
    rows = {
        "positive": [f"{split['positive']:,}" for split in splits.values()],
        "negative": [f"{split['negative']:,}" for split in splits.values()],
        "total": [f"{split['positive'] + split['negative']:,}" for split in splits.values()],
        f"texts over {_LONG} {unit}": [f"{split['long_texts']:.2f} %" for split in splits.values()],
        f"median {unit} a text": [f"{split['median_length']:,.0f}" for split in splits.values()],
    }
    return aligned(
        [["", *splits], *([name, *row] for name, row in rows.items())], right=range(1, 1 + len(splits))
    )
