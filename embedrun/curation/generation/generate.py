"""One generation: sentences read, models asked, pairs written and shown."""

from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.console import Progress, aligned, clean, say
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, expanded, refuse_unwritable
from embedrun.runs.directory import Outcome

if TYPE_CHECKING:
    from embedrun.curation.generation.llm import Llm
    from embedrun.curation.generation.output import Generated
    from embedrun.curation.generation.plan import GeneratePlan
    from embedrun.store import Store


_SHOWN = 2  # sentences whose prompts a dry run prints


def run(plain: Plain, overrides: list[str], directory: str | None) -> Outcome:
    """Generate the pairs of a composed configuration.

    `overrides` are not used, since the output records everything; a run directory that the user named is
    refused.

    Raises:
        ConfigError: with every fault of the configuration.
        DataError: with everything that is missing, before anything is asked or written; or if a language
            model does not answer, and then the answers so far are kept.
    """
    from embedrun.curation.generation.output import PROVENANCE, Generated, blocks, foreign, merge
    from embedrun.curation.generation.plan import make, missing, plan_generate, unguarded
    from embedrun.store import Store

    plan = plan_generate(plain)
    if directory is not None:
        raise ConfigError("hydra.run.dir: generate makes no run directory; give output=DIR")
    config, store = plan.config, Store.find(plan.config.data_dir)
    output = expanded(config.output)
    problems = _unreadable(plan, store)
    if output.exists() and not output.is_dir():
        problems.append(f"output: {config.output} is a file; give a folder")
    if not config.dry_run:
        if not (output / PROVENANCE).exists():
            refuse_unwritable("output", output)
        problems += foreign(output) + missing(config)
    if problems:
        raise DataError(problems)
    sentences = _sentences(plan, store)
    cut = blocks(sentences)
    if config.dry_run:
        _dry(plan, cut)
        return Outcome()
    for line in unguarded(config):
        say(line)
    notes: list[str] = []  # of requests that are tried again, for the progress bar
    llms = make(config, notes.append)
    settings = _settings(plan, sentences, llms)
    parts = Generated(output, len(cut), settings)
    parts.check()
    _fill(plan, llms, parts, {number: cut[number] for number in parts.missing(plan.shard)}, notes)
    if others := parts.missing():
        there = len(cut) - len(others)
        print(f"{there} of {len(cut)} parts are there; the shard that writes the last one joins them")
        print(clean(str(output)))
        return Outcome(str(output))
    facts = {"input": _source(plan, len(sentences)), **settings, "requests": 2 * len(sentences) * len(llms)}
    _report(merge(parts, facts), output)
    return Outcome(str(output))


def _unreadable(plan: "GeneratePlan", store: "Store") -> list[str]:
    from embedrun.curation.generation.answers import file_problems

    if plan.dataset is not None:
        return plan.dataset.problems(plan.config.split, store)
    return file_problems(expanded(plan.config.input or ""))


def _sentences(plan: "GeneratePlan", store: "Store") -> list[str]:
    from embedrun.curation.generation.answers import distinct, of_rows, read_file

    config = plan.config
    if plan.dataset is None:
        return distinct(read_file(expanded(config.input or "")), config.limit)
    rows = plan.dataset.read(config.split, store)
    if rows.skipped and not config.dry_run:
        from embedrun.experiment.data import skip_warning, write_skipped

        output = expanded(config.output)
        output.mkdir(parents=True, exist_ok=True)
        write_skipped(rows.skipped, output)
        say(f"warning: {skip_warning(rows.skipped)}")
    return distinct(of_rows(rows, config.column), config.limit)


def _source(plan: "GeneratePlan", sentences: int) -> Plain:
    """The input, as the provenance names it: without a path of this machine."""
    config = plan.config
    if plan.dataset is None:
        return {"file": Path(config.input or "").name, "sentences": sentences}
    from embedrun.family import family_name

    return {
        "dataset": family_name(plan.dataset),
        "split": config.split,
        "column": config.column,
        "sentences": sentences,
    }


def _settings(plan: "GeneratePlan", sentences: list[str], llms: "list[Llm]") -> Plain:
    """All options that decide the output."""
    from embedrun.curation.generation.answers import fingerprint
    from embedrun.curation.generation.llm import TEMPLATES
    from embedrun.curation.generation.output import BLOCK

    return {
        "sentences": fingerprint(sentences),
        "block": BLOCK,
        "prompts": TEMPLATES,
        "size": plan.config.size,
        "filter_small_differences": plan.config.filter_small_differences,
        "llms": [dict(llm.settings) for llm in llms],
    }


def _fill(
    plan: "GeneratePlan",
    llms: "list[Llm]",
    parts: "Generated",
    wanted: dict[int, list[str]],
    notes: list[str],
) -> None:
    """Write the missing parts, with a progress bar of the requests."""
    from embedrun.curation.generation.llm import Responses
    from embedrun.curation.generation.output import fill

    config, done = plan.config, 0
    stored = parts.output / "responses"
    responses = Responses(expanded(config.responses) if config.responses else stored)
    with Progress("generate", 2 * sum(map(len, wanted.values())) * len(llms), "requests") as bar:

        def answered(label: str, count: int) -> None:
            nonlocal done
            done += count
            bar.reach(done, notes[-1] if notes else label)

        words = config.filter_small_differences
        fill(wanted, llms, responses, parts, size=config.size, words=words, answered=answered)


def _dry(plan: "GeneratePlan", cut: list[list[str]]) -> None:
    from embedrun.curation.generation.llm import TEMPLATES, prompt

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


def _report(provenance: Plain, output: Path) -> None:
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
