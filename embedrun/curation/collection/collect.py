"""One collection: issues fetched, paired, written and shown."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from embedrun import plot
from embedrun.backbone.tokens import tokens_of
from embedrun.console import Progress, aligned, clean, say
from embedrun.curation.collection.issues import Reader, Repository
from embedrun.curation.collection.output import Output, write_provenance, write_split
from embedrun.curation.collection.pairs import Pair, make_pairs
from embedrun.curation.collection.plan import CollectPlan, plan_collect, tokenizer_file
from embedrun.errors import ConfigError, DataError, install_extra
from embedrun.files import Plain, as_written, expanded
from embedrun.runs.directory import Outcome

if TYPE_CHECKING:
    from embedrun.curation.collection.github import Client


def run(plain: Plain, overrides: list[str], directory: str | None) -> Outcome:
    """Collect as a composed configuration says; a finished collection is shown again.

    `overrides` are not used; a run directory that the user named is refused.

    Raises:
        ConfigError: with every fault of the configuration.
        DataError: if a repository is not there, the server refuses, or there are too few duplicates.
    """
    plan = plan_collect(plain, directory)
    provenance = plan.output.provenance()
    if provenance is None:
        provenance = _collect(plan)
    else:
        say(f"{plan.output.folder} is finished; nothing is fetched")
    if not (plan.output.root / "MANIFEST.json").is_file():
        plan.output.write_manifest(provenance)
    print(table_in(plan.output, provenance))
    print(clean(str(plan.output.folder)))
    return Outcome(str(plan.output.root))


def _collect(plan: CollectPlan) -> Plain:
    """Fetch, pair and write; returns the provenance."""
    try:
        from embedrun.curation.collection.github import Client, Server
    except ImportError as fault:
        raise ConfigError(f"collect needs hishel and httpx2 ({fault}); {install_extra('collect')}") from fault

    config = plan.config
    unit, count = counter(plan)

    def notice(text: str) -> None:
        with progress.paused():
            say(text)

    server = Server(
        api=config.api, token=plan.token, timeout=config.timeout, retries=config.retries, notice=notice
    )
    if plan.token is None:
        say(f"no token in {config.token_variable}: GitHub allows 60 requests an hour without one")
    with plan.output.held():
        plan.output.begin(plan.settings)
        folder = plan.output.root / "pages" if config.cache is None else expanded(config.cache)
        with closing(Client(server, folder, refresh=config.refresh)) as client:
            done = 0
            reader = Reader(client, most=config.max_issues, note=lambda text: progress.reach(done, text))
            with Progress("collect", len(config.repositories), "repositories") as progress:
                names = _names(client, config.repositories)
                repositories = []
                for done, name in enumerate(config.repositories):  # noqa: B007 - `done` is the note's
                    repositories.append(_read(reader, name, names[name]))
                progress.reach(len(repositories), f"{server.requests:,} requests")
            shares = {"dev": config.splits.dev, "test": config.splits.test}
            pairs = make_pairs(repositories, negatives=config.negatives, shares=shares, seed=config.seed)
            return write(plan, reader, repositories, pairs, unit, count)


def _names(client: "Client", names: Sequence[str]) -> dict[str, str]:
    """The current name of each repository; all that cannot be read are refused together."""
    found, problems = {}, []
    for name in names:
        page = client.get(f"repos/{name}")
        if page.status != 200:
            problems.append(f"{name}: no such repository, or the token may not read it (HTTP {page.status})")
        elif not page.items.get("has_issues", True):
            problems.append(f"{name}: its issues are switched off; leave it out")
        else:
            found[name] = page.items["full_name"]
    if problems:
        raise DataError(problems)
    return found


def _read(reader: Reader, name: str, full_name: str) -> Repository:
    try:
        return reader.read(name, full_name)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        why = f"{type(fault).__name__}: {fault}"
        raise DataError(
            f"{name}: an answer that is not in the format of GitHub's REST API ({why})"
        ) from fault


Counter = Callable[[list[str]], list[int]]
_LONG = 512  # AnglE, Sec. 4.1, calls longer texts long


def table_in(output: Output, provenance: Plain) -> str:
    """`table` of what is in the folder; DataError where the provenance there lacks what it shows."""
    path = output.folder / "provenance.json"
    with as_written(path, "the provenance of a collection", "name a new folder with output=DIR"):
        return table(provenance)


def table(provenance: Plain) -> str:
    """Table 1 of the AnglE paper, with the share of long texts of its Sec. 4.1."""
    splits, unit = provenance["splits"], provenance["length_unit"]
    found = splits.values()
    rows = [
        ["", *splits],
        ["positive", *(f"{split['positive']:,}" for split in found)],
        ["negative", *(f"{split['negative']:,}" for split in found)],
        ["total", *(f"{split['positive'] + split['negative']:,}" for split in found)],
        [f"texts over {_LONG} {unit}", *(f"{split['long_texts']:.2f} %" for split in found)],
        [f"pairs with one over {_LONG} {unit}", *(f"{split['long_pairs']:.2f} %" for split in found)],
        [f"median {unit} a text", *(f"{split['median_length']:,.0f}" for split in found)],
    ]
    return aligned(rows, right=range(1, 1 + len(splits)))


def write(
    plan: CollectPlan,
    reader: Reader,
    repositories: Sequence[Repository],
    pairs: Mapping[str, Sequence[Pair]],
    unit: str,
    count: Counter,
) -> Plain:
    """Write the splits, the plot of their lengths and the provenance, which is returned.

    `reader` has read the repositories; `pairs` are by split; `count` gives the length of each text in `unit`.
    """
    texts = _texts(reader, repositories, [pair for split in pairs.values() for pair in split])
    files, splits, lengths = [], {}, {}
    with plan.output.publishing() as aside:
        for split, rows in pairs.items():
            files.append(write_split(aside / f"{split}.jsonl.gz", rows, texts))
            both = [texts[row.repository][number] for row in rows for number in (row.left, row.right)]
            counted = np.array(count(both)).reshape(-1, 2)  # (rows, 2)
            lengths[split] = counted.ravel()
            splits[split] = {
                "positive": sum(row.score for row in rows),
                "negative": sum(1 - row.score for row in rows),
                "long_texts": round(100 * float((counted > _LONG).mean()), 2),
                "long_pairs": round(100 * float((counted > _LONG).any(axis=1).mean()), 2),
                "median_length": float(np.median(counted)),
            }
        plot.lengths(lengths, unit, _LONG, aside / "lengths.png")
        provenance = {
            "schema": 1,
            "settings": plan.settings,
            "repositories": {item.name: dict(sorted(item.counts.items())) for item in repositories},
            "length_unit": unit,
            "splits": splits,
            "files": files,
        }
        write_provenance(aside, provenance)
    return provenance


def _texts(
    reader: Reader, repositories: Sequence[Repository], pairs: Sequence[Pair]
) -> dict[str, dict[int, str]]:
    """The texts of all pairs, by repository and number."""
    wanted: dict[str, set[int]] = {}
    for pair in pairs:
        wanted.setdefault(pair.repository, set()).update((pair.left, pair.right))
    return {item.name: reader.texts(item, wanted[item.name]) for item in repositories if item.name in wanted}


def counter(plan: CollectPlan) -> tuple[str, Counter]:
    """The unit of lengths, and what counts the length of each text.

    Raises:
        DataError: if the tokenizer cannot be read.
    """
    file = tokenizer_file(plan.config)
    if file is None:
        return "words", lambda texts: [len(text.split()) for text in texts]
    return "tokens", tokens_of(file, "tokenizer")
