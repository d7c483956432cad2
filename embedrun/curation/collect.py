"""One collection: checked, repositories read, their issues paired, written and shown."""

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from embedrun import plot
from embedrun.backbone.tokens import tokens_of
from embedrun.config import Checker
from embedrun.config.options import CollectConfig, SplitsConfig
from embedrun.console import Progress, aligned, clean, say
from embedrun.curation import folder
from embedrun.curation.endpoint import is_in_the_clear, url_problem, variable_problem
from embedrun.curation.pairs import Pair, Repository, make_pairs
from embedrun.errors import ConfigError, DataError, install_extra
from embedrun.files import (
    Plain,
    as_written,
    expanded,
    only_writer,
    packed,
    publish,
    sha256,
    to_json_lines,
    whole_folder,
)
from embedrun.runs.directory import Outcome

FOLDER = "github_issues"
_SETTINGS, _REPOSITORIES = "collect.json", "repositories"
_LONG = 512  # AnglE, Sec. 4.1, calls longer texts long
_NAME = re.compile(r"[\w-][\w.-]*/(?!\.{1,2}$)[\w.-]+", re.ASCII)


def plan_collect(plain: Plain, directory: str | None) -> tuple[CollectConfig, Plain, Path | None]:
    """The checked configuration, what of it decides the result, and the file of the tokenizer, if any.

    The second is without paths and secrets. A run directory that the user named is a fault, too.
    """
    checker = Checker()
    config = checker.build(CollectConfig, plain)
    folder.refuse_run_directory(checker, directory)
    if config is None:
        raise checker.refusal()
    checker.problems += _repository_problems(config.repositories)
    checker.problems += _server_problems(config)
    checker.problems += _split_problems(config.splits)
    tokenizer = config.tokenizer and expanded(config.tokenizer) / "tokenizer.json"
    if tokenizer and not tokenizer.is_file():
        checker.problems.append(
            f"tokenizer: no file {str(tokenizer)!r}; name a model's folder with tokenizer.json"
        )
    if checker.problems:
        raise checker.refusal()
    decisive = ("repositories", "max_issues", "negatives", "splits", "seed")
    settings = {name: value for name, value in asdict(config).items() if name in decisive}
    settings |= {"api": config.api.rstrip("/"), "tokenizer": tokenizer and sha256(tokenizer)}
    folder.check(expanded(config.output), settings, _SETTINGS, kept=_REPOSITORIES)
    return config, settings, tokenizer or None


def _repository_problems(repositories: Sequence[str]) -> list[str]:
    if not repositories:
        return ["repositories: none given; pass repositories=[owner/name,...]"]
    wrong = [name for name in repositories if not _NAME.fullmatch(name)]
    names = Counter(name.lower() for name in repositories)
    return [f"repositories: {name!r} is not owner/name, as in numpy/numpy" for name in wrong] + [
        f"repositories: {name} is given twice" for name, count in names.items() if count > 1
    ]


def _server_problems(config: CollectConfig) -> list[str]:
    api = url_problem(config.api)
    if api is None and is_in_the_clear(config.api):
        api = f"{config.api!r} would send the token in the clear; use https"
    token = variable_problem(config.token_variable)
    return [f"{name}: {problem}" for name, problem in (("api", api), ("token_variable", token)) if problem]


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
    """Collect as a composed configuration says; a finished one is shown again; no `overrides` are used."""
    config, settings, tokenizer = plan_collect(plain, directory)
    data = expanded(config.output) / FOLDER
    if data.is_dir():
        say(f"{data} is finished; nothing is fetched")
    else:
        _collect(config, settings, tokenizer, data.parent)
    print(table(folder.read(data / folder.PROVENANCE)))
    print(clean(str(data)))
    return Outcome(str(data.parent))


def _collect(config: CollectConfig, settings: Plain, tokenizer: Path | None, output: Path) -> None:
    if find_spec("github") is None:
        raise ConfigError(f"collect needs PyGithub; {install_extra('collect')}")
    newest = "" if config.max_issues is None else f".newest-{config.max_issues}"
    files = {
        name: output / _REPOSITORIES / f"{name.lower()}{newest}.jsonl.gz"
        for name in sorted(config.repositories)
    }
    output.mkdir(parents=True, exist_ok=True)
    with only_writer(output / FOLDER):
        folder.write(output / _SETTINGS, settings)
        _fetch(config, files)
        pairs = make_pairs(
            _kept(files), negatives=config.negatives, shares=asdict(config.splits), seed=config.seed
        )
        _write(output / FOLDER, settings, tokenizer, _kept(files), pairs)


def _fetch(config: CollectConfig, files: Mapping[str, Path]) -> None:
    from embedrun.curation.github import connect, find, read

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
    with Progress("collect", len(files), "repositories") as bar:
        for done, (name, remote) in enumerate(missing.items(), len(files) - len(missing)):
            repository = read(remote, name, most=config.max_issues, note=partial(bar.reach, done))
            rows = [{"number": number, "text": text} for number, text in repository.texts.items()]
            last = {"duplicates": repository.duplicates, "counts": repository.counts}
            publish(files[name], packed(to_json_lines([*rows, last])))
        bar.reach(len(files))


def _kept(files: Mapping[str, Path]) -> Iterator[Repository]:
    """The repositories, one after the other: together their texts may not fit in memory."""
    for name, file in files.items():
        with as_written(file, "a repository that collect has read", "delete it, and it is fetched again"):
            with gzip.open(file, "rt", encoding="utf-8") as lines:
                *rows, last = map(json.loads, lines)
            texts = {row["number"]: row["text"] for row in rows}
            duplicates = [(left, right) for left, right in last["duplicates"]]
            repository = Repository(name, texts, duplicates, Counter(last["counts"]))
        yield repository


def _write(
    data: Path,
    settings: Plain,
    tokenizer: Path | None,
    repositories: Iterable[Repository],
    pairs: Mapping[str, Sequence[Pair]],
) -> None:
    lines, counts = {split: [] for split in pairs}, {}
    for repository in repositories:
        counts[repository.name] = repository.counts
        for split, rows in pairs.items():
            lines[split] += [
                {
                    "text1": repository.texts[pair.left],
                    "text2": repository.texts[pair.right],
                    "score": pair.score,
                    "repository": pair.repository,
                    "number1": pair.left,
                    "number2": pair.right,
                }
                for pair in rows
                if pair.repository == repository.name
            ]
    unit, count = "words", lambda texts: [len(text.split()) for text in texts]
    if tokenizer is not None:
        unit, count = "tokens", tokens_of(tokenizer, "tokenizer")
    lengths = {
        split: np.array(count([row[side] for row in rows for side in ("text1", "text2")]))  # (2 * rows,)
        for split, rows in lines.items()
    }
    files = []
    with whole_folder(data) as aside:
        aside.mkdir()
        for split, rows in lines.items():
            path = aside / f"{split}.jsonl.gz"
            path.write_bytes(packed(to_json_lines(rows)))
            files.append({"path": f"{FOLDER}/{path.name}", "rows": len(rows), "sha256": sha256(path)})
        plot.lengths(lengths, unit, _LONG, aside / "lengths.png")
        provenance = {
            "schema": 1,
            "settings": settings,
            "repositories": counts,
            "length_unit": unit,
            "splits": {split: _statistics(rows, lengths[split]) for split, rows in lines.items()},
            "files": files,
        }
        folder.write(aside / folder.PROVENANCE, provenance)


def _statistics(rows: Sequence[Plain], lengths: np.ndarray) -> Plain:
    positive = sum(row["score"] for row in rows)
    return {
        "positive": positive,
        "negative": len(rows) - positive,
        "long_texts": round(100 * float((lengths > _LONG).mean()), 2),
        "median_length": float(np.median(lengths)),
    }


def table(provenance: Plain) -> str:
    """Table 1 of the AnglE paper, with the share of long texts of its Sec. 4.1."""
    unit = provenance["length_unit"]
    columns = [["", "positive", "negative", "total", f"texts over {_LONG} {unit}", f"median {unit} a text"]]
    for name, split in provenance["splits"].items():
        pairs = [split["positive"], split["negative"], split["positive"] + split["negative"]]
        lengths = [f"{split['long_texts']:.2f} %", f"{split['median_length']:,.0f}"]
        columns.append([name, *(f"{count:,}" for count in pairs), *lengths])
    return aligned(list(map(list, zip(*columns, strict=True))), right=range(1, len(columns)))
