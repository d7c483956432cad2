"""One annotation: checked, encoded block by block, merged, shown; mining begins here too."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun import gpu
from embedrun.blocks import Shard
from embedrun.config import AnnotateConfig, AnnotatorConfig, Checker, nearest
from embedrun.console import Progress, aligned, clean, say
from embedrun.curation import folder, mining
from embedrun.curation.output import BY_LABEL, PROVENANCE, SCORED, Parts, list_skipped, merge
from embedrun.curation.teachers import (
    encoding,
    identity,
    load,
    located,
    prompt_problem,
    settings_of,
)
from embedrun.dataset import named
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.plan import plan_dataset, refuse_training_gpu
from embedrun.family import family_name
from embedrun.files import Plain, expanded, refuse_unwritable
from embedrun.pooling import FIRST_LAST, HEAD, LEGACY, POOLINGS
from embedrun.runs.directory import Outcome
from embedrun.runs.search import settled
from embedrun.store import Store, hub

if TYPE_CHECKING:
    from embedrun.dataset import DataSet


_SETTINGS = "annotate.json"


@dataclass(frozen=True)
class AnnotatePlan:
    """One checked annotation, of the labelled pairs `dataset`, or of its positive pairs with `mode=mine`."""

    config: AnnotateConfig
    dataset: "DataSet"
    shard: Shard


def plan_annotate(plain: Plain) -> AnnotatePlan:
    """Check a composed annotation configuration.

    Raises:
        ConfigError: with every fault.
    """
    checker = Checker()
    config = checker.build(AnnotateConfig, plain)
    dataset = plan_dataset(checker, plain.get("dataset"))
    shard = Shard(0, 1)
    if config is not None:
        if config.mode == "score" and dataset is not None:
            _scorable(checker, dataset)
        checker.problems += mining.problems(config, dataset)
        checker.problems += gpu.problems(config.gpu)
        refuse_training_gpu(checker, config.gpu)
        if config.gpu.precision not in ("auto", "fp32"):
            checker.problems.append(
                f"gpu.precision: teachers compute in float32, got {config.gpu.precision}; leave it at auto"
            )
        _annotators(checker, config.teachers)
        try:
            shard = Shard.parse(config.shard)
        except ValueError as fault:
            checker.problems.append(f"shard: {fault}")
    if checker.problems or config is None or dataset is None:
        raise checker.refusal()
    return AnnotatePlan(config, dataset, shard)


def _scorable(checker: Checker, dataset: "DataSet") -> None:
    if not (dataset.form == "pair" and "label" in dataset.targets):
        checker.problems.append(
            f"dataset={family_name(dataset)}: gives no pairs with a label, which annotate scores; choose "
            "dataset=nli_three_way, or dataset=pairs with 'dataset.columns={text1: A, text2: B, label: C}'"
        )


def _annotators(checker: Checker, teachers: Sequence[AnnotatorConfig]) -> None:
    # A teacher has no option that says which layer is the first or how far to pad, and trains no head.
    known = ("auto", *(name for name in POOLINGS if name not in (FIRST_LAST, HEAD, *LEGACY)))
    if not teachers:
        checker.problems.append("teachers: none given; pass 'teachers=[{name: HUB_ID_OR_FOLDER}]'")
    for index, teacher in enumerate(teachers):
        if teacher.pooling not in known:
            hint = nearest(teacher.pooling, known)
            checker.problems.append(
                f"teachers[{index}].pooling: no pooling {teacher.pooling!r}{hint} "
                f"(there are: {', '.join(known)})"
            )
        if problem := prompt_problem(teacher.prompt):
            checker.problems.append(f"teachers[{index}].prompt: {problem}")


def run(plain: Plain, overrides: list[str], directory: str | None) -> Outcome:
    """Annotate the shard's blocks that are not done yet, and merge once every block is done; or mine.

    `overrides` are not used; a run directory that the user named is refused.

    Raises:
        ConfigError: with every fault of the configuration, or if `output` holds another annotation.
        DataError: with everything that is missing or damaged.
    """
    plain = settled(plain, pin=hub.pinned)  # a later finished run must not change what this one started from
    plan = plan_annotate(plain)
    if directory is not None:
        raise ConfigError("hydra.run.dir, hydra.sweep.dir: annotate makes no run directory; give output=DIR")
    config, output = plan.config, expanded(plan.config.output)
    if not (output / PROVENANCE).exists():
        refuse_unwritable("output", output)
    store = Store.find(config.data_dir)
    folders, problems = located(config.teachers)
    problems += named.unreadable([(plan.dataset, "train")], store)
    if problems:
        raise DataError(problems)
    rows = plan.dataset.read("train", store)
    teachers = [identity(*both) for both in zip(config.teachers, folders, strict=True)]
    if config.mode == "mine":
        return mining.run(config, rows, teachers, output)
    settings = settings_of(rows, config.block_rows, teachers)
    folder.check(output, settings, _SETTINGS, kept="parts")
    if (output / PROVENANCE).is_file() and (output / SCORED).is_file():
        say(f"{output}: already complete, nothing to encode")
        return _report(output)
    parts = Parts(output, rows, settings)
    numbers = [] if config.merge_only else parts.missing(plan.shard)
    folder.begin(output, settings, _SETTINGS)
    list_skipped(rows, output)
    if numbers:
        try:
            _encode(plan, parts, numbers)
        except KeyboardInterrupt:
            done = len(numbers) - len(parts.missing(plan.shard))
            say(f"{done} of {len(numbers)} blocks are done and kept; run the same command to resume")
            raise
    if missing := parts.missing():
        return _wait(plan, output, parts.count, missing)
    say(f"every block is done, merging {parts.count}")
    merge(parts)
    return _report(output)


def _encode(plan: AnnotatePlan, parts: Parts, numbers: Sequence[int]) -> None:
    config, rows = plan.config, parts.rows
    encoders = load(config.teachers, gpu.start(config.gpu).device)
    share = len(plan.shard.of(parts.count))
    say(
        f"{len(rows):,} pairs in {parts.count} blocks, {share} of them in shard {config.shard}, "
        f"{len(numbers)} to do"
    )
    total = sum(len(parts.texts(number)[0]) for number in numbers)
    scored = 0
    with Progress("annotate", total, "pairs") as bar:

        def reach(teacher: int, share: float) -> None:
            inside = min(config.block_rows, total - scored) * (teacher + share) / len(encoders)
            bar.reach(scored + int(inside))

        encodes = [
            encoding(encoder, one.prompt, config.batch_tokens, lambda share, place=place: reach(place, share))
            for place, (encoder, one) in enumerate(zip(encoders, config.teachers, strict=True))
        ]
        for count in parts.score(numbers, encodes):
            scored += count
            bar.reach(scored)


def _wait(plan: "AnnotatePlan", output: Path, blocks: int, missing: Sequence[int]) -> Outcome:
    """Report the blocks that other processes still have to do; DataError if they were to be merged."""
    first = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    if plan.config.merge_only:
        raise DataError(
            f"{output}: {len(missing)} of {blocks} blocks are missing ({first}); run the same command "
            "without merge_only, or copy them into parts/"
        )
    print(clean(f"{blocks - len(missing)} of {blocks} blocks are done, missing {first}\n\n{output}"))
    return Outcome(str(output))


def _report(output: Path) -> Outcome:
    heading = ["label", "pairs", "mean", *(f"{share} %" for share in range(10, 100, 10))]
    table = [
        [name, f"{row['pairs']:,}", f"{row['mean']:.4f}", *(f"{value:.3f}" for value in row["deciles"])]
        for name, row in folder.read(output / f"{BY_LABEL}.json").items()
    ]
    print(f"{aligned([heading, *table], right=range(1, len(heading)))}\n\n{clean(str(output))}")
    return Outcome(str(output))
