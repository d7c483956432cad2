"""Every option of `embedrun collect`, with its unit, range and default."""

from dataclasses import dataclass

from embedrun.config.options import option


@dataclass
class SplitsConfig:
    """How many of the pairs are for choosing and for testing; the others are for training."""

    dev: float = option(0.0714, unit="below 1: share of all pairs; else pairs; 0: no such split", at_least=0)
    test: float = option(0.0715, unit="below 1: share of all pairs; else pairs; 0: no such split", at_least=0)


@dataclass
class CollectConfig:
    """The whole of `embedrun collect`."""

    output: str = option(unit="folder of the data set, made anew or gone on with")
    repositories: list[str] = option(unit="owner/name, each")
    api: str = option("https://api.github.com", unit="root of GitHub's REST API")
    token_variable: str = option("GITHUB_TOKEN", unit="environment variable with the access token")
    max_issues: int | None = option(None, unit="issues a repository, the newest; null: all", at_least=1)
    negatives: float = option(0.962, unit="negative pairs a positive one", at_least=0, at_most=100)
    splits: SplitsConfig = option(unit="pairs of dev and test")
    seed: int = option(42, unit="of splits and negatives", at_least=0, below=2**31)
    tokenizer: str | None = option(
        None, unit="folder with tokenizer.json, for lengths in tokens; null: in words"
    )
    cache: str | None = option(None, unit="folder of fetched pages; null: pages/ in the output")
    refresh: bool = option(False, unit="ask whether pages in the cache have changed")
    timeout: float = option(30.0, unit="seconds until a silent connection counts as dropped", above=0)
    retries: int = option(
        6, unit="attempts after the first, on 5xx and dropped connections", at_least=0, at_most=100
    )
