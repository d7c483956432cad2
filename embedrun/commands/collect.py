"""Collect duplicate issues of GitHub repositories into a data set of similar and other pairs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun.commands.arguments import parse
from embedrun.commands.collect_files import counter, table, write
from embedrun.console import Progress, clean, say
from embedrun.errors import ConfigError, DataError
from embedrun.launch.sweep import start
from embedrun.runs.directory import Outcome

if TYPE_CHECKING:
    from embedrun.commands.collect_plan import CollectPlan
    from embedrun.dataset.collection.repository import Reader, Repository

_EXAMPLES = (
    "embedrun collect output=DIR                                  (the 55 repositories of AnglE)",
    "embedrun collect output=DIR repositories=[numpy/numpy,psf/requests] max_issues=2000",
    "embedrun train dataset=github_issues dataset.path=DIR evaluation=heldout ...",
)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun collect`."""
    request = parse("collect", __doc__ or "", argv, _EXAMPLES)
    if request is None:
        return 0
    if request.multirun or any("hydra.mode" in override for override in request.overrides):
        raise ConfigError("embedrun collect: one collection at a time; leave out -m and hydra.mode")
    return start(request)


def run(plain: Mapping[str, Any], overrides: list[str], directory: str | None) -> Outcome:
    """Collect as a composed configuration says; what is finished is shown again.

    Args:
        plain: resolved plain data.
        overrides: what the user changed; not needed.
        directory: the run directory, where the user named one; refused.

    Raises:
        ConfigError: with every fault of the configuration.
        DataError: if a repository is not there, the server refuses, or there are too few duplicates.
    """
    from embedrun.commands.collect_plan import plan_collect

    plan = plan_collect(plain, directory)
    provenance = plan.output.provenance()
    if provenance is None:
        provenance = _collect(plan)
    else:
        say(f"{plan.output.folder} is finished; nothing is fetched")
    if not (plan.output.root / "MANIFEST.json").is_file():
        plan.output.write_manifest(provenance)
    print(table(provenance))
    print(clean(str(plan.output.folder)))
    return Outcome(str(plan.output.root))


def _collect(plan: "CollectPlan") -> dict[str, Any]:
    """Fetch, pair and write; returns the provenance."""
    from embedrun.dataset.collection.api import Client
    from embedrun.dataset.collection.cache import Cache
    from embedrun.dataset.collection.pairs import make_pairs
    from embedrun.dataset.collection.repository import Reader
    from embedrun.dataset.collection.transport import Server

    config = plan.config
    unit, count = counter(plan)
    if plan.token is None:
        say(f"no token in {config.token_variable}: GitHub allows 60 requests an hour without one")
    plan.output.begin(plan.settings)
    folder = plan.output.root / "pages" if config.cache is None else Path(config.cache).expanduser()
    with Progress("collect", len(config.repositories), "repositories") as progress:

        def notice(seconds: float) -> None:
            with progress.paused():
                say(f"the request rate is used up; going on in {seconds:,.0f} seconds")

        server = Server(
            api=config.api, token=plan.token, timeout=config.timeout, retries=config.retries, notice=notice
        )
        cache = Cache(folder)
        cache.clear_remains()
        client = Client(server, cache, refresh=config.refresh)
        done = 0
        reader = Reader(client, most=config.max_issues, note=lambda text: progress.reach(done, text))
        names = _names(client, config.repositories)
        repositories = []
        for done, name in enumerate(config.repositories):  # noqa: B007 - `done` is the note's
            repositories.append(_read(reader, name, names[name]))
        progress.reach(len(repositories), f"{server.requests:,} requests")
    shares = {"dev": config.splits.dev, "test": config.splits.test}
    pairs = make_pairs(repositories, negatives=config.negatives, shares=shares, seed=config.seed)
    return write(plan, reader, repositories, pairs, unit, count)


def _names(client: Any, names: Sequence[str]) -> dict[str, str]:
    """The name of each repository today; all that cannot be read are refused together."""
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


def _read(reader: "Reader", name: str, full_name: str) -> "Repository":
    try:
        return reader.read(name, full_name)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        why = f"{type(fault).__name__}: {fault}"
        raise DataError(
            f"{name}: an answer that is not in the format of GitHub's REST API ({why})"
        ) from fault
