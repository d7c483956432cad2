"""One generation: sentences read, models asked, pairs written and shown.

Source: Li and Li 2024 (AnglE), Section 4.5 and Figure 4.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from embedrun.console import Progress, aligned, clean, say
from embedrun.curation import folder
from embedrun.curation.answers import Sifted, distinct, of_rows, sift
from embedrun.curation.llm import TEMPLATES, Llm, Responses, ask_all, prompt
from embedrun.curation.plan import GeneratePlan, make, missing, plan_generate, unguarded
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.data import skip_warning, write_skipped
from embedrun.family import family_name
from embedrun.files import Plain, expanded, packed, publish, to_json, to_json_line, to_json_lines
from embedrun.runs.directory import Outcome
from embedrun.store import Store

BLOCK = 200  # sentences that a shard takes, and a local model decodes, at a time
PAIRS, REJECTS, PROVENANCE = "pairs.jsonl.gz", "rejects.jsonl", "provenance.json"
_SETTINGS, _RESPONSES = "generate.json", "responses"
_SHOWN = 2  # sentences whose prompts a dry run prints


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
    if not config.dry_run:
        problems += missing(config)
    if problems:
        raise DataError(problems)
    rows = plan.dataset.read(plan.split, store)
    sentences = distinct(of_rows(rows, config.column), config.limit)
    blocks = [sentences[start : start + BLOCK] for start in range(0, len(sentences), BLOCK)]
    if config.dry_run:
        _dry(plan, blocks)
        return Outcome()
    for line in unguarded(config):
        say(line)
    llms = make(config)
    settings = {
        "sentences": hashlib.sha256(to_json_line(sentences)).hexdigest(),
        "block": BLOCK,
        "prompts": TEMPLATES,
        "size": config.size,
        "filter_small_differences": config.filter_small_differences,
        "llms": [dict(llm.settings) for llm in llms],
    }
    folder.check(output, settings, _SETTINGS, kept=_RESPONSES, reusable=True)
    if (output / PROVENANCE).is_file() and (output / PAIRS).is_file():
        say(f"{output}: already complete, nothing to ask")
        return _report(output)
    folder.begin(output, settings, _SETTINGS)
    if warning := skip_warning(rows.skipped):
        write_skipped(rows.skipped, output)
        say(f"warning: {warning}")
    stored = expanded(config.responses) if config.responses else output / _RESPONSES
    responses = Responses(stored, f"{plan.shard.index}-of-{plan.shard.count}")
    _ask(plan, llms, [blocks[number] for number in plan.shard.of(len(blocks))], responses)
    responses.reload()
    sifted, unanswered = _sifted(plan, llms, sentences, responses)
    if unanswered:
        there = f"{len(sentences) - unanswered:,} of {len(sentences):,} sentences"
        print(f"{there} are answered; the shard that asks for the last one makes the pairs")
        print(clean(str(output)))
        return Outcome(str(output))
    facts = {"input": _source(plan, len(sentences)), **settings, "requests": 2 * len(sentences) * len(llms)}
    _write(output, sifted, facts)
    return _report(output)


def _source(plan: GeneratePlan, sentences: int) -> Plain:
    """The input, as the provenance names it: without a path of this machine."""
    config = plan.config
    if config.input is not None:
        return {"file": Path(config.input).name, "sentences": sentences}
    return {
        "dataset": family_name(plan.dataset),
        "split": config.split,
        "column": config.column,
        "sentences": sentences,
    }


def _ask(
    plan: GeneratePlan, llms: Sequence[Llm], blocks: Sequence[Sequence[str]], responses: Responses
) -> None:
    """Get every answer of the blocks.

    One language model answers everything before the next is loaded, since two may not fit in memory.
    """
    done = 0
    with Progress("generate", 2 * sum(map(len, blocks)) * len(llms), "requests") as bar:
        for llm in llms:

            def answered(count: int, label: str = llm.label) -> None:
                nonlocal done
                done += count
                bar.reach(done, label)

            try:
                for block in blocks:
                    prompts = [prompt(kind, text, plan.config.size) for text in block for kind in TEMPLATES]
                    ask_all(llm, prompts, responses, answered)
            finally:
                llm.close()


def _sifted(
    plan: GeneratePlan, llms: Sequence[Llm], sentences: Sequence[str], responses: Responses
) -> tuple[list[Sifted], int]:
    """What the answers about each sentence gave, and how many sentences lack one."""
    size, words, unanswered = plan.config.size, plan.config.filter_small_differences, 0
    sifted = []
    for text in sentences:
        prompts = {kind: prompt(kind, text, size) for kind in TEMPLATES}
        answers = [
            (
                llm.label,
                {kind: answer for kind, asked in prompts.items() if (answer := responses.get(llm, asked))},
            )
            for llm in llms
        ]
        unanswered += any(len(by_kind) < len(TEMPLATES) for _, by_kind in answers)
        sifted.append(sift(text, answers, size=size, words=words))
    return sifted, unanswered


def _write(output: Path, sifted: Sequence[Sifted], facts: Plain) -> None:
    """Write the pairs, the rejects and, as the last, the provenance: the facts, counts and checksums."""
    pairs = [row for one in sifted for row in one.pairs]
    rejects = [row for one in sifted for row in one.rejects]
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
    content[PROVENANCE] = to_json(provenance).encode("utf-8", "replace")
    for name, data in content.items():
        publish(output / name, data, replace=True)


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _dry(plan: GeneratePlan, cut: list[list[str]]) -> None:
    config = plan.config
    total = sum(map(len, cut))
    share = sum(len(cut[number]) for number in plan.shard.of(len(cut)))
    print("the first prompts:")
    for text in cut[0][:_SHOWN]:
        for kind in TEMPLATES:
            print(clean(f"\n[{kind}]\n{prompt(kind, text, config.size)}"))
    rows = [["llm", "requests", f"of them shard {config.shard}"]]
    for llm in config.llms:
        rows.append([llm.name or llm.model or "", f"{2 * total:,}", f"{2 * share:,}"])
    rows.append(["all", f"{2 * total * len(config.llms):,}", f"{2 * share * len(config.llms):,}"])
    print("\n" + aligned(rows, right=(1, 2)))
    print(
        f"\n{total:,} sentences, {config.size} positives and {config.size} negatives asked for each; "
        "answers that are stored already cost no request; nothing was asked and nothing written"
    )


def _report(output: Path) -> Outcome:
    provenance = folder.read(output / PROVENANCE)
    counts = provenance["counts"]
    rows = [["what", "count"], ["input sentences", f"{provenance['input']['sentences']:,}"]]
    rows += [["answers", f"{provenance['requests']:,}"]]
    rows += [[f"{name} pairs", f"{counts[name]:,}"] for name in ("positive", "negative")]
    rows += [[f"pairs of {name}", f"{count:,}"] for name, count in counts["pairs_by_llm"].items()]
    rows += [[f"rejected: {reason}", f"{count:,}"] for reason, count in counts["rejects_by_reason"].items()]
    print(aligned(rows, right=(1,)))
    if not counts["pairs"]:
        say("warning: no answer gave a pair; rejects.jsonl has every answer and the reason")
    print(clean(str(output)))
    return Outcome(str(output))
