"""One generation: sentences read, models asked, pairs written and shown.

Source: Li and Li 2024 (AnglE), Section 4.5 and Figure 4.
"""

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun import gpu
from embedrun.blocks import Shard
from embedrun.config import Checker, nearest
from embedrun.config.options import GenerateConfig, LlmConfig
from embedrun.console import Progress, aligned, clean, say
from embedrun.curation import folder
from embedrun.curation.answers import Sifted, sift
from embedrun.curation.endpoint import is_in_the_clear, url_problem, variable_problem
from embedrun.curation.llm import TEMPLATES, HttpLlm, Llm, Responses, ask_all, prompt
from embedrun.dataset import views_of
from embedrun.errors import ConfigError, DataError, install_extra
from embedrun.experiment.plan import plan_dataset
from embedrun.family import build, family_name
from embedrun.files import Plain, expanded, packed, publish, to_json, to_json_line, to_json_lines
from embedrun.rows import Rows, views_of_form
from embedrun.runs.directory import Outcome
from embedrun.store import Store

if TYPE_CHECKING:
    from embedrun.dataset import DataSet

BLOCK = 200  # sentences that a shard takes, and a local model decodes, at a time
PAIRS, REJECTS = "pairs.jsonl.gz", "rejects.jsonl"
_SETTINGS, _RESPONSES = "generate.json", "responses"
_SHOWN = 2  # sentences whose prompts a dry run prints
_OPTIONS_OF = {
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
    problems = checker.problems
    config = checker.build(GenerateConfig, plain)
    dataset, shard = _dataset(checker, plain), Shard(0, 1)
    if config is not None:
        problems += gpu.problems(config.gpu)
        try:
            shard = Shard.parse(config.shard)
        except ValueError as fault:
            problems.append(f"shard: {fault}")
        if not config.llms:
            problems.append("llms: give at least one, such as llms=[{kind: local, name: FOLDER}]")
        for number, llm in enumerate(config.llms):
            problems += [f"llms[{number}].{problem}" for problem in _llm_problems(llm)]
        asks = not config.dry_run and any(llm.kind == "http" for llm in config.llms)
        if asks and find_spec("openai") is None:
            problems.append(f"generate needs the openai package; {install_extra('generate')}")
    if problems or config is None or dataset is None:
        raise checker.refusal()
    return GeneratePlan(config, dataset, "train" if config.input else config.split, shard)


def _dataset(checker: Checker, plain: Plain) -> "DataSet | None":
    """The data set, which for an input file is `texts`; None where it is faulty."""
    options, file, column = (plain.get(name) for name in ("dataset", "input", "column"))
    if (options is None) == (file is None):
        have = "neither" if file is None else "both"
        checker.problems.append(f"input: give input=FILE or dataset=NAME (such as dataset=stsb), got {have}")
        return None
    if file is not None:
        if column is not None:
            checker.problems.append("column: only for dataset=NAME; an input file has no columns")
        return build(checker, "dataset", "texts", {"path": file}, "input")
    dataset = plan_dataset(checker, options)
    if dataset is None:
        return None
    name, split = family_name(dataset), plain.get("split", "train")
    # Where the graded splits have a form of their own, the rows themselves say what columns they have.
    columns = views_of_form(dataset.form, views_of(dataset)).values()
    if split not in dataset.splits:
        given = ", ".join(dataset.splits)
        checker.problems.append(f"split: dataset={name} has no {split} split (it has: {given})")
    elif column is not None and column not in columns and split not in getattr(dataset, "graded", ()):
        checker.problems.append(f"column: dataset={name} {_no_column(column, columns)}")
    return dataset


def _no_column(column: object, columns: Iterable[str]) -> str:
    return f"has no {column!r}{nearest(str(column), columns)} (it has: {', '.join(columns)})"


def _llm_problems(llm: LlmConfig) -> list[str]:
    problems = [
        f"{name}: only for kind={kind}, and this one is {llm.kind}; leave it out"
        for kind, names in _OPTIONS_OF.items()
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


def _models(config: GenerateConfig) -> tuple[list[Llm], list[str]]:
    """The language models, and what they lack on this machine: folders, hub models, keys."""
    from embedrun import backbone
    from embedrun.curation.local import LocalLlm

    llms: list[Llm] = []
    problems = []
    for llm in config.llms:
        try:
            if llm.kind == "http":
                llms.append(HttpLlm(llm, retries=config.retries, timeout=config.timeout))
                continue
            compute = gpu.start(config.gpu)
            path = backbone.locate(llm.name or "", llm.revision)
            llms.append(LocalLlm(llm, path, device=compute.device.type, precision=compute.precision))
        except DataError as fault:
            problems += fault.problems
    return llms, problems


def column_of(rows: Rows, column: str | None) -> list[str]:
    """One text column of a data set, by its name in the form of the rows; None for the first.

    Raises:
        DataError: if the rows have no such column.
    """
    views = {name: view for view, name in views_of_form(rows.form, rows.texts).items()}
    if column is not None and column not in views:
        raise DataError(f"column: {rows.name} {rows.split} {_no_column(column, views)}")
    return list(rows.texts[views[column or next(iter(views))]])


def run(plain: Plain, overrides: list[str], directory: str | None) -> Outcome:
    """Generate the pairs of a composed configuration.

    `overrides` are not used, since the output records everything; a run directory that the user named is
    refused.

    Raises:
        ConfigError: with every fault of the configuration, or if `output` holds something else.
        DataError: with everything that is missing, before anything is asked or written; or if a language
            model does not answer, and then the answers so far are kept.
    """
    plan = plan_generate(plain)
    if directory is not None:
        raise ConfigError("hydra.run.dir: generate makes no run directory; give output=DIR")
    config, store = plan.config, Store.find(plan.config.data_dir)
    output = expanded(config.output)
    problems = plan.dataset.problems(plan.split, store)
    if config.input is not None:
        problems = [problem.replace("dataset.path", "input", 1) for problem in problems]
    llms, lacking = ([], []) if config.dry_run else _models(config)
    if problems := problems + lacking:
        raise DataError(problems)
    rows = plan.dataset.read(plan.split, store)
    sentences = list(dict.fromkeys(column_of(rows, config.column)))[: config.limit]
    blocks = [sentences[start : start + BLOCK] for start in range(0, len(sentences), BLOCK)]
    share = [blocks[number] for number in plan.shard.of(len(blocks))]
    if config.dry_run:
        _dry(config, sentences, sum(map(len, share)))
        return Outcome()
    for llm in config.llms:
        if llm.url and llm.key_variable and is_in_the_clear(llm.url):
            say(f"warning: {llm.url} is not https: the key and every text travel in the clear")
    settings = {
        "sentences": hashlib.sha256(to_json_line(sentences)).hexdigest(),
        "block": BLOCK,
        "prompts": TEMPLATES,
        "size": config.size,
        "filter_small_differences": config.filter_small_differences,
        "llms": [llm.settings for llm in llms],
    }
    folder.check(output, settings, _SETTINGS, kept=_RESPONSES)
    if (output / folder.PROVENANCE).is_file() and (output / PAIRS).is_file():
        say(f"{output}: already complete, nothing to ask")
        return _report(output)
    folder.begin(output, settings, _SETTINGS)
    folder.list_skipped(rows, output)
    stored = expanded(config.responses) if config.responses else output / _RESPONSES
    responses = Responses(stored, f"{plan.shard.index}-of-{plan.shard.count}")
    _ask(llms, share, config.size, responses)
    responses.reload()
    sifted, unanswered = _sifted(config, llms, sentences, responses)
    if unanswered:
        there = f"{len(sentences) - unanswered:,} of {len(sentences):,} sentences"
        print(f"{there} are answered; the shard that asks for the last one makes the pairs")
        print(clean(str(output)))
        return Outcome(str(output))
    source = (
        {"file": Path(config.input).name}  # without a path of this machine
        if config.input is not None
        else {"dataset": family_name(plan.dataset), "split": config.split, "column": config.column}
    )
    requests = 2 * len(sentences) * len(llms)
    _write(
        output, sifted, {"input": {**source, "sentences": len(sentences)}, **settings, "requests": requests}
    )
    return _report(output)


def _ask(llms: Sequence[Llm], blocks: Sequence[Sequence[str]], size: int, responses: Responses) -> None:
    """Get every answer of the blocks.

    One language model answers everything before the next is loaded, since two may not fit in memory.
    """
    done = 0
    with Progress("generate", 2 * sum(map(len, blocks)) * len(llms), "requests") as bar:
        for llm in llms:
            with contextlib.closing(llm):
                for block in blocks:
                    prompts = [prompt(kind, text, size) for text in block for kind in TEMPLATES]
                    for count in ask_all(llm, prompts, responses):
                        done += count
                        bar.reach(done, llm.label)


def _sifted(
    config: GenerateConfig, llms: Sequence[Llm], sentences: Sequence[str], responses: Responses
) -> tuple[list[Sifted], int]:
    """What the answers about each sentence gave, and how many sentences lack one."""
    sifted, unanswered = [], 0
    for text in sentences:
        answers = []
        for llm in llms:
            by_kind = {kind: responses.get(llm, prompt(kind, text, config.size)) for kind in TEMPLATES}
            answers.append((llm.label, {kind: answer for kind, answer in by_kind.items() if answer}))
        unanswered += any(len(by_kind) < len(TEMPLATES) for _, by_kind in answers)
        sifted.append(sift(text, answers, size=config.size, words=config.filter_small_differences))
    return sifted, unanswered


def _write(output: Path, sifted: Sequence[Sifted], facts: Plain) -> None:
    """Write the pairs, the rejects and, as the last, the provenance: the facts, counts and checksums."""
    pairs = [row for answers in sifted for row in answers.pairs]
    rejects = [row for answers in sifted for row in answers.rejects]
    content = {PAIRS: packed(to_json_lines(pairs)), REJECTS: to_json_lines(rejects)}
    provenance = {
        "schema": 1,
        **facts,
        "counts": {
            "pairs": len(pairs),
            "positive": sum(row["score"] == 1 for row in pairs),
            "negative": sum(row["score"] == 0 for row in pairs),
            "pairs_by_llm": _counted(row["llm"] for row in pairs),
            "rejects": len(rejects),
            "rejects_by_reason": _counted(row["reason"] for row in rejects),
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
    }
    content[folder.PROVENANCE] = to_json(provenance).encode("utf-8", "replace")
    for name, data in content.items():
        publish(output / name, data, replace=True)


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _dry(config: GenerateConfig, sentences: Sequence[str], share: int) -> None:
    """Print the first prompts and the number of requests, in all and of the shard's `share` of sentences."""
    print("the first prompts:")
    for text in sentences[:_SHOWN]:
        for kind in TEMPLATES:
            print(clean(f"\n[{kind}]\n{prompt(kind, text, config.size)}"))
    requests, ours = 2 * len(sentences), 2 * share
    rows = [["llm", "requests", f"of them shard {config.shard}"]]
    rows += [[llm.name or llm.model or "", f"{requests:,}", f"{ours:,}"] for llm in config.llms]
    rows += [["all", f"{requests * len(config.llms):,}", f"{ours * len(config.llms):,}"]]
    print("\n" + aligned(rows, right=(1, 2)))
    print(
        f"\n{len(sentences):,} sentences, {config.size} positives and {config.size} negatives asked for "
        "each; answers that are stored already cost no request; nothing was asked and nothing written"
    )


def _report(output: Path) -> Outcome:
    provenance = folder.read(output / folder.PROVENANCE)
    counts = provenance["counts"]
    rows = {"input sentences": provenance["input"]["sentences"], "answers": provenance["requests"]}
    rows |= {f"{name} pairs": counts[name] for name in ("positive", "negative")}
    rows |= {f"pairs of {name}": count for name, count in counts["pairs_by_llm"].items()}
    rows |= {f"rejected: {reason}": count for reason, count in counts["rejects_by_reason"].items()}
    print(aligned([["what", "count"], *([name, f"{count:,}"] for name, count in rows.items())], right=(1,)))
    if not counts["pairs"]:
        say("warning: no answer gave a pair; rejects.jsonl has every answer and the reason")
    print(clean(str(output)))
    return Outcome(str(output))
