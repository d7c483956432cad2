"""The options of `embedrun generate`."""

from dataclasses import dataclass
from typing import Any, Literal

from embedrun.config.options import GpuConfig, option


@dataclass
class LlmConfig:
    """A language model that writes sentences: a local one, or one behind an HTTP endpoint."""

    kind: Literal["local", "http"] = option(unit="local: run here; http: an OpenAI-compatible endpoint")
    name: str | None = option(None, unit="local: hub id or folder of a causal language model")
    revision: str | None = option(None, unit="local: commit, branch or tag on the hub; null: the newest")
    batch_size: int | None = option(None, unit="local: prompts decoded together; null: 8", at_least=1)
    url: str | None = option(None, unit="http: address above /chat/completions, https://HOST/v1")
    model: str | None = option(None, unit="http: what the endpoint calls the model")
    key_variable: str | None = option(
        None, unit="http: environment variable that holds the key; null: no key is sent"
    )
    parallel: int | None = option(None, unit="http: requests at a time; null: 4", at_least=1, at_most=256)
    max_new_tokens: int | None = option(
        512, unit="tokens of an answer at most; null, only for http: as the endpoint has it", at_least=1
    )
    temperature: float | None = option(
        0.0, unit="0: the likeliest token; null, only for http: as the endpoint has it", at_least=0, at_most=5
    )
    seed: int | None = option(
        None, unit="of sampling; null: 0 for local, not sent for http", at_least=0, below=2**31
    )


@dataclass
class GenerateConfig:
    """The whole of `embedrun generate`."""

    output: str = option(unit="folder for pairs.jsonl.gz; one of the same configuration is gone on with")
    llms: list[LlmConfig] = option(unit="language models; the pairs of several are joined")
    gpu: GpuConfig = option(unit="group; only for local language models")
    input: str | None = option(None, unit="text file, a sentence a line, also .gz; null: a data set's texts")
    dataset: dict[str, Any] | None = option(None, unit="group; whose texts are read, instead of input")
    split: Literal["train", "dev", "test"] = option("train", unit="of the data set")
    column: str | None = option(None, unit="of the data set, text1, text2, anchor, ...; null: the first")
    limit: int | None = option(None, unit="different sentences taken, from the first; null: all", at_least=1)
    size: int = option(5, unit="sentences asked for, of each kind for each input", at_least=1, at_most=100)
    filter_small_differences: int | None = option(
        None, unit="words by which a negative must differ; AnglE's first release: 5", at_least=1
    )
    responses: str | None = option(None, unit="folder of stored answers; null: responses/ in output")
    retries: int = option(6, unit="further tries of a request that failed", at_least=0, at_most=100)
    timeout: float = option(120.0, unit="seconds without a word from the endpoint", above=0, at_most=3600)
    shard: str = option(
        "0/1", unit="I/N, I from 0: of the blocks of sentences, this process does I, I + N, I + 2N, ..."
    )
    dry_run: bool = option(False, unit="print the first prompts and the number of requests, write nothing")
    data_dir: str | None = option(
        None, unit="folder of the data store; null: EMBEDRUN_DATA, else the user's cache"
    )
