"""One generation: sentences read, models asked, pairs written and shown.

Source: Li and Li 2024 (AnglE), Section 4.5 and Figure 4.
"""

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun import gpu
from embedrun.blocks import Shard
from embedrun.config import Checker, nearest
from embedrun.config.options import GenerateConfig, GpuConfig, LlmConfig
from embedrun.console import Progress, aligned, clean, say
from embedrun.curation import folder
from embedrun.curation.answers import SCORES, sift
from embedrun.curation.endpoint import is_in_the_clear, url_problem, variable_problem
from embedrun.curation.llm import TEMPLATES, HttpLlm, Llm, Responses, ask_all, prompt
from embedrun.dataset import views_of
from embedrun.errors import DataError, install_extra
from embedrun.experiment.plan import plan_dataset
from embedrun.family import build, family_name
from embedrun.files import Plain, expanded, packed, publish, to_json_line, to_json_lines
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


def plan_generate(plain: Plain, directory: str | None = None) -> tuple[GenerateConfig, "DataSet", Shard]:
    """Check a composed configuration; a run directory that the user named is a fault, too."""
    checker = Checker()
    config = checker.build(GenerateConfig, plain)
    dataset = _dataset(checker, plain)
    shard = folder.plan_shard(checker, plain)
    folder.refuse_run_directory(checker, directory)
    checker.problems += _llms_problems(plain)
    if compute := folder.part(GpuConfig, plain.get("gpu")):
        checker.problems += gpu.problems(compute)
    if checker.problems or config is None or dataset is None or shard is None:
        raise checker.refusal()
    return config, dataset, shard


def _dataset(checker: Checker, plain: Plain) -> "DataSet | None":
    file, options = plain.get("input"), plain.get("dataset")
    if (file is None) == (options is None):
        checker.problems.append("input: give either input=FILE or dataset=NAME, such as dataset=stsb")
        return None
    if options is None:
        dataset = build(checker, "dataset", "texts", {"path": file}, "input")
    else:
        dataset = plan_dataset(checker, options)
    if dataset is None:
        return None
    name, split, column = family_name(dataset), plain.get("split", "train"), plain.get("column")
    # Where the graded splits have a form of their own, the rows themselves say what columns they have.
    graded = split in getattr(dataset, "graded", ())
    columns = () if graded else views_of_form(dataset.form, views_of(dataset)).values()
    if split not in dataset.splits:
        given = ", ".join(dataset.splits)
        checker.problems.append(f"split: dataset={name} has no {split} split (it has: {given})")
    elif columns and column not in (None, *columns):
        checker.problems.append(f"column: dataset={name} {_no_column(column, columns)}")
    return dataset


def _no_column(column: object, columns: Iterable[str]) -> str:
    return f"has no {column!r}{nearest(str(column), columns)} (it has: {', '.join(columns)})"


def _llms_problems(plain: Plain) -> list[str]:
    llms = plain.get("llms")
    if llms == []:
        return ["llms: give at least one, such as llms=[{kind: local, name: FOLDER}]"]
    options = enumerate(llms if isinstance(llms, list) else [])
    parts = {number: llm for number, given in options if (llm := folder.part(LlmConfig, given))}
    problems = [
        f"llms[{number}].{problem}" for number, llm in parts.items() for problem in _llm_problems(llm)
    ]
    kinds = [] if plain.get("dry_run") else [llm.kind for llm in parts.values()]
    if "http" in kinds and find_spec("openai") is None:
        problems.append(f"generate needs the openai package; {install_extra('generate')}")
    return problems


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
    checks = {
        "url": llm.url and url_problem(llm.url),
        "key_variable": llm.key_variable and variable_problem(llm.key_variable),
    }
    return problems + [f"{name}: {problem}" for name, problem in checks.items() if problem]


def _models(config: GenerateConfig, dataset: "DataSet", store: Store) -> list[Llm]:
    """The language models, which a dry run does without."""
    problems, llms = dataset.problems(config.split, store), []
    if config.input is not None:
        problems = [problem.replace("dataset.path", "input", 1) for problem in problems]
    for number, llm in enumerate([] if config.dry_run else config.llms):
        try:
            llms.append(_model(llm, config))
        except DataError as fault:
            problems += [f"llms[{number}]: {problem}" for problem in fault.problems]
    if problems:
        raise DataError(problems)
    return llms


def _model(llm: LlmConfig, config: GenerateConfig) -> Llm:
    if llm.kind == "http":
        if llm.key_variable and is_in_the_clear(llm.url or ""):
            say(f"warning: {llm.url} is not https: the key and every text travel in the clear")
        return HttpLlm(llm, retries=config.retries, timeout=config.timeout)
    from embedrun import backbone
    from embedrun.curation.local import LocalLlm  # which a model behind a server does not need

    path, compute = backbone.locate(llm.name or "", llm.revision), gpu.start(config.gpu)
    return LocalLlm(llm, path, device=compute.device.type, precision=compute.precision)


def column_of(rows: Rows, column: str | None) -> list[str]:
    """One text column of a data set, by its name in the form of the rows; None for the first."""
    views = {name: view for view, name in views_of_form(rows.form, rows.texts).items()}
    if column is not None and column not in views:
        raise DataError(f"column: {rows.name} {rows.split} {_no_column(column, views)}")
    return list(rows.texts[views[column or next(iter(views))]])


def run(plain: Plain, overrides: list[str], directory: str | None) -> Outcome:
    """Generate the pairs of a composed configuration; `overrides` are not used."""
    config, dataset, shard = plan_generate(plain, directory)
    store = Store.find(config.data_dir)
    llms = _models(config, dataset, store)
    rows = dataset.read(config.split, store)
    sentences = list(dict.fromkeys(column_of(rows, config.column)))[: config.limit]
    blocks = [sentences[start : start + BLOCK] for start in range(0, len(sentences), BLOCK)]
    share = [blocks[number] for number in shard.of(len(blocks))]
    if config.dry_run:
        _dry(config, sentences, sum(map(len, share)))
        return Outcome()
    settings = _settings(config, sentences, llms)
    output = expanded(config.output)
    folder.check(output, settings, _SETTINGS, kept=_RESPONSES)
    if (output / folder.PROVENANCE).is_file():
        say(f"{output}: already complete, nothing to ask")
        return _report(output)
    folder.write(output / _SETTINGS, settings)
    folder.list_skipped(rows, output)
    stored = expanded(config.responses) if config.responses else output / _RESPONSES
    responses = Responses(stored, f"{shard.index}-of-{shard.count}")
    _ask(llms, share, config.size, responses)
    responses.reload()
    requests = [(llm, kind) for llm in llms for kind in TEMPLATES]  # about each sentence
    pairs, rejects, complete = [], [], 0
    for text in sentences:
        answers = [
            (llm.label, kind, answer)
            for llm, kind in requests
            if (answer := responses.get(llm, prompt(kind, text, config.size)))
        ]
        complete += len(answers) == len(requests)
        kept, left_out = sift(text, answers, size=config.size, words=config.filter_small_differences)
        pairs += kept
        rejects += left_out
    if complete < len(sentences):
        there = f"{complete:,} of {len(sentences):,} sentences"
        print(f"{there} are answered; the shard that asks for the last one makes the pairs")
        print(clean(str(output)))
        return Outcome(str(output))
    source = {"dataset": family_name(dataset), "split": config.split, "column": config.column}
    if config.input is not None:
        source = {"file": Path(config.input).name}  # no path of this machine
    facts = {"input": {**source, "sentences": len(sentences)}, **settings}
    _write(output, pairs, rejects, facts | {"requests": len(requests) * len(sentences)})
    return _report(output)


def _settings(config: GenerateConfig, sentences: Sequence[str], llms: Sequence[Llm]) -> Plain:
    return {
        "sentences": hashlib.sha256(to_json_line(sentences)).hexdigest(),
        "block": BLOCK,
        "prompts": TEMPLATES,
        "size": config.size,
        "filter_small_differences": config.filter_small_differences,
        "llms": [llm.settings for llm in llms],
    }


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


def _write(output: Path, pairs: Sequence[Plain], rejects: Sequence[Plain], facts: Plain) -> None:
    content = {PAIRS: packed(to_json_lines(pairs)), REJECTS: to_json_lines(rejects)}
    for name, data in content.items():
        publish(output / name, data, replace=True)
    by_score = Counter(row["score"] for row in pairs)
    provenance = {
        "schema": 1,
        **facts,
        "counts": {
            "pairs": len(pairs),
            **{name: by_score[score] for name, score in SCORES.items()},
            "pairs_by_llm": Counter(row["llm"] for row in pairs),
            "rejects": len(rejects),
            "rejects_by_reason": Counter(row["reason"] for row in rejects),
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
    }
    folder.write(output / folder.PROVENANCE, provenance)


def _dry(config: GenerateConfig, sentences: Sequence[str], share: int) -> None:
    print("the first prompts:")
    for text in sentences[:_SHOWN]:
        for kind in TEMPLATES:
            print(clean(f"\n[{kind}]\n{prompt(kind, text, config.size)}"))
    names = [llm.name or llm.model or "" for llm in config.llms]
    rows = [["llm", "requests", f"of them shard {config.shard}"]]
    for name, models in [*((name, 1) for name in names), ("all", len(names))]:
        rows.append([name, *(f"{2 * count * models:,}" for count in (len(sentences), share))])
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
