"""One annotation: checked, encoded block by block, merged, shown; mining begins here too."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedrun import gpu, plot
from embedrun.blocks import Shard
from embedrun.config import AnnotateConfig, Checker, nearest
from embedrun.console import Progress, aligned, clean, say
from embedrun.curation import folder, mining
from embedrun.curation.teachers import (
    DECIMALS,
    Encode,
    average,
    identity,
    load,
    located,
    prompt_problem,
    prompted,
    settings_of,
    similarities,
)
from embedrun.dataset import named
from embedrun.dataset.nli import by_label, grouped
from embedrun.errors import DataError
from embedrun.experiment.plan import plan_dataset, refuse_training_gpu
from embedrun.family import family_name
from embedrun.files import Plain, expanded, packed, publish, sha256, to_json_line, to_json_lines, whole_file
from embedrun.pooling import FIRST_LAST, HEAD, LEGACY, POOLINGS
from embedrun.rows import Rows
from embedrun.runs.directory import Outcome, config_hash
from embedrun.runs.search import settled
from embedrun.store import Store, hub
from embedrun.training import workers
from embedrun.training.processes import Processes

if TYPE_CHECKING:
    from embedrun.dataset import DataSet

SCORED = "nli_scored.jsonl.gz"
BY_LABEL = "scores_by_label"  # .json and .png


def plan_annotate(plain: Plain, directory: str | None = None) -> tuple[AnnotateConfig, "DataSet", Shard]:
    """Check a composed configuration; a run directory that the user named is a fault, too."""
    checker = Checker()
    problems = checker.problems
    config = checker.build(AnnotateConfig, plain)
    dataset = plan_dataset(checker, plain.get("dataset"))
    shard = folder.plan_shard(checker, plain)
    folder.refuse_run_directory(checker, directory)
    if config is not None:
        elsewhere = config.gpu.nodes > 1 or config.gpu.rendezvous is not None
        refuse_training_gpu(checker, config.gpu, alone=config.mode == "mine" or elsewhere)
        problems += [
            *_dataset_problems(config, dataset),
            *mining.problems(config, dataset),
            *gpu.problems(config.gpu),
            *_teacher_problems(config),
        ]
        if config.gpu.precision not in ("auto", "fp32"):
            problems.append(
                f"gpu.precision: teachers compute in float32, got {config.gpu.precision}; leave it at auto"
            )
    if problems or config is None or dataset is None or shard is None:
        raise checker.refusal()
    return config, dataset, shard


def _dataset_problems(config: AnnotateConfig, dataset: "DataSet | None") -> list[str]:
    if config.mode == "mine" or dataset is None or (dataset.form == "pair" and "label" in dataset.targets):
        return []
    return [
        f"dataset={family_name(dataset)}: gives no pairs with a label, which annotate scores; "
        "choose dataset=nli_three_way, or dataset=pairs with "
        "'dataset.columns={text1: A, text2: B, label: C}'"
    ]


def _teacher_problems(config: AnnotateConfig) -> list[str]:
    # A teacher has no option that says which layer is the first or how far to pad, and trains no head.
    known = ("auto", *(name for name in POOLINGS if name not in (FIRST_LAST, HEAD, *LEGACY)))
    if not config.teachers:
        return ["teachers: none given; pass 'teachers=[{name: HUB_ID_OR_FOLDER}]'"]
    problems = []
    for index, teacher in enumerate(config.teachers):
        if (name := teacher.pooling) not in known:
            problems.append(
                f"teachers[{index}].pooling: no pooling {name!r}{nearest(name, known)} "
                f"(there are: {', '.join(known)})"
            )
        if problem := prompt_problem(teacher.prompt):
            problems.append(f"teachers[{index}].prompt: {problem}")
    return problems


def run(plain: Plain, overrides: list[str], directory: str | None, resumed: Path | None = None) -> Outcome:
    """Annotate the shard's blocks that are not done yet, and merge once every block is done; or mine.

    With several processes each does its part of the blocks, and the first merges. `resumed` is None.
    """
    plain = settled(plain, pin=hub.pinned)  # a later finished run must not change what this one started from
    config, dataset, shard = plan_annotate(plain, directory)
    output, store = expanded(config.output), Store.find(config.data_dir)
    folders, problems = located(config.teachers)
    if problems := problems + named.unreadable([(dataset, "train")], store):
        raise DataError(problems)
    rows = dataset.read("train", store)
    teachers = [identity(*both) for both in zip(config.teachers, folders, strict=True)]
    if config.mode == "mine":
        return mining.run(config, rows, teachers, output)
    settings = settings_of(rows, config.block_rows, teachers)
    folder.check(output, settings, folder.ANNOTATE, kept="parts")
    if (output / folder.PROVENANCE).is_file():
        say(f"{output}: already complete, nothing to encode")
        return _report(output)
    parts = Parts(output, rows, settings)
    numbers = [] if config.merge_only else parts.missing(shard)
    if numbers and workers.wanted(config.gpu):
        run_here = {"run": f"{__name__}:run", "resumed": resumed, "overrides": overrides}
        return workers.launch(config.gpu, plain, **run_here, directory=directory)
    workers.join(config.gpu, config_hash(plain))
    processes = Processes()
    if processes.rank == 0:
        folder.write(output / folder.ANNOTATE, settings)
        folder.list_skipped(rows, output)
    if own := numbers[processes.rank :: processes.size]:
        _encode(config, parts, own)
    processes.any(False)  # until all are done
    processes.part()
    if processes.rank > 0:
        return Outcome()
    if missing := parts.missing():
        first = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        if config.merge_only:
            raise DataError(
                f"{output}: {len(missing)} of {parts.count} blocks are missing ({first}); run the same "
                "command without merge_only, or copy them into parts/"
            )
        done = f"{parts.count - len(missing)} of {parts.count} blocks are done, missing {first}"
        print(clean(f"{done}\n\n{output}"))
        return Outcome(str(output))
    merge(parts)
    return _report(output)


class Parts:
    """The blocks that are done: files of cosines, ``(rows, teachers)``, in `parts/` of the output.

    Each is whole or absent. Their names tell the settings, so that those of another annotation never count.
    """

    def __init__(self, output: Path, rows: Rows, settings: Plain) -> None:
        self.output, self.rows, self.settings = output, rows, settings
        self.count = -(-len(rows) // settings["block_rows"])
        self._mark = hashlib.sha256(to_json_line(settings)).hexdigest()[:12]

    def path(self, number: int) -> Path:
        """The file of a block."""
        return self.output / "parts" / f"part-{number:05}-{self._mark}.npy"

    def missing(self, shard: Shard = Shard(0, 1)) -> list[int]:  # noqa: B008 - it is frozen
        """The blocks of a shard that are still to do."""
        return [number for number in shard.of(self.count) if not self.path(number).is_file()]

    def score(self, numbers: Sequence[int], teachers: Sequence[Encode]) -> Iterator[int]:
        """Score blocks and write each as soon as it is done; yields the number of rows of each."""
        size = self.settings["block_rows"]
        for number in numbers:
            block = slice(number * size, (number + 1) * size)
            left, right = (self.rows.texts[side][block] for side in ("left", "right"))
            cosines = similarities(left, right, teachers)  # (rows, teachers)
            folder.write_array(self.path(number), cosines)
            yield len(cosines)


def merge(parts: Parts) -> None:
    """Write the scored rows, table and plot by label, and last the provenance, which says complete."""
    rows, output = parts.rows, parts.output
    blocks = [folder.read_array(parts.path(number)) for number in range(parts.count)]
    cosines = np.concatenate(blocks)  # (rows, teachers)
    label, scores = rows.targets["label"], np.round(average(cosines), DECIMALS)  # (rows,) each
    columns = {
        "text1": rows.texts["left"],
        "text2": rows.texts["right"],
        "label": label.tolist(),
        "score": scores.tolist(),
        **{
            f"score_{place}": np.round(column, DECIMALS).tolist() for place, column in enumerate(cosines.T, 1)
        },
    }
    lines = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    publish(output / SCORED, packed(to_json_lines(lines)), replace=True)
    groups = grouped(label, scores)
    folder.write(output / f"{BY_LABEL}.json", by_label(groups))
    with whole_file(output / f"{BY_LABEL}.png") as aside:
        plot.histogram(groups, "mean cosine of the teachers", "Scores by label", aside)
    provenance = {
        **parts.settings,
        "score": "mean over the teachers of the cosine of the two texts' vectors (RAOE, Eq. 4)",
        "labels": {name: len(scores) for name, scores in groups.items()},
        "file": {"path": SCORED, "rows": len(rows), "sha256": sha256(output / SCORED)},
    }
    folder.write(output / folder.PROVENANCE, provenance)


def _encode(config: AnnotateConfig, parts: Parts, numbers: Sequence[int]) -> None:
    encoders = load(
        config.teachers, gpu.start(config.gpu, place=int(os.environ.get("LOCAL_RANK", "0"))).device
    )
    total = sum(min(config.block_rows, len(parts.rows) - number * config.block_rows) for number in numbers)
    scored = 0
    with Progress("annotate", total, "pairs") as bar:

        def encode(texts: list[str], index: int) -> np.ndarray:
            def progress(done: int, texts: int) -> None:
                share = (index + done / texts) / len(encoders)
                bar.reach(scored + int(min(config.block_rows, total - scored) * share))

            prompt, tokens = config.teachers[index].prompt, config.batch_tokens
            return encoders[index].encode(prompted(texts, prompt), batch_tokens=tokens, progress=progress)

        for count in parts.score(numbers, [partial(encode, index=index) for index in range(len(encoders))]):
            scored += count
            bar.reach(scored)


def _report(output: Path) -> Outcome:
    heading = ["label", "pairs", "mean", *(f"{share} %" for share in range(10, 100, 10))]
    found = folder.read(output / f"{BY_LABEL}.json")
    table = [
        [name, f"{row['pairs']:,}", f"{row['mean']:.4f}", *(f"{value:.3f}" for value in row["deciles"])]
        for name, row in found.items()
    ]
    against = [
        f"{name} and {other} {100 * share:.1f} %"
        for name, row in found.items()
        for other, share in row.get("conflicts", {}).items()
    ]
    lines = [aligned([heading, *table], right=range(1, len(heading)))]
    if against:
        lines += ["", f"scores order against labels, of the pairs of a row of each: {', '.join(against)}"]
    print("\n".join([*lines, "", clean(str(output))]))
    return Outcome(str(output))
