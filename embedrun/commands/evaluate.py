"""Score any encoder: a hub model, a model folder or a finished run directory."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun import signals
from embedrun.commands.arguments import parse
from embedrun.commands.outcome import recorded
from embedrun.commands.start import start
from embedrun.runs.directory import Outcome

if TYPE_CHECKING:
    from embedrun.commands.plan import EvaluatePlan
    from embedrun.store import Store

_EXAMPLES = (
    "embedrun evaluate model=sentence-transformers/all-MiniLM-L6-v2 evaluation=sts",
    "embedrun evaluate model=RUN_DIR evaluation=sts_senteval",
    "embedrun evaluate model=RUN_DIR evaluation=heldout dataset=toy",
)
_PROBED = 4  # sentences by which a resumed evaluation knows its model again


def main(argv: Sequence[str]) -> int:
    """Run `embedrun evaluate`."""
    request = parse("evaluate", __doc__ or "", argv, _EXAMPLES)
    # A signal that asks for an end says so by its exit code before there is a run directory, too.
    with signals.raised():
        return 0 if request is None else start(request)


def run(
    plain: Mapping[str, Any], overrides: list[str], directory: str | None, *, resumed: Path | None = None
) -> Outcome:
    """Score the model of a composed configuration.

    Args:
        plain: resolved plain data.
        overrides: what the user changed.
        directory: the run directory, where the user named one.
        resumed: the run directory of an evaluation to go on with, instead of a new one.

    Raises:
        ConfigError: with every fault of the configuration, or if a resumed evaluation would mix two models
            or two states of the data.
        DataError: with everything that is missing, before a run directory is made.
    """
    from embedrun.commands.plan import plan_evaluate

    plan = plan_evaluate(plain)
    from embedrun import gpu
    from embedrun.commands import drawing, fingerprint, score_table, scoring, unlike_files
    from embedrun.commands.contamination import Contamination, tell
    from embedrun.commands.kept import Kept, finite_intervals
    from embedrun.commands.skipped import skip_warning, skipped_in, write_skipped
    from embedrun.console import say
    from embedrun.encoder import Encoder
    from embedrun.prompt import in_use
    from embedrun.runs import search
    from embedrun.runs.directory import Run, describe
    from embedrun.runs.search import same_config, same_data
    from embedrun.store import Store

    # An evaluation that goes on is to find the model that it began with, whatever has finished since.
    if (settled := search.settled(plain)) != plain:
        plain, plan = settled, plan_evaluate(settled)
    config = plan.config
    if resumed is not None:
        same_config(resumed, plain)
    store = Store.find(config.data_dir)
    _check_places(plan, store)
    scorer = scoring.Scorer.read(plan.tasks, plan.dataset, store, config.evaluation)
    seen = [] if plan.seen is None else [plan.seen.read("train", store)]
    shared = Contamination.find(seen, scorer.rows) if seen else None
    if shared is not None:
        scorer = scorer.without(shared.clean())
    skipped = skipped_in([*seen, *scorer.every_rows()])
    counts = scorer.counts() | ({"skipped_rows": len(skipped)} if skipped else {})
    data = scoring.fingerprints_of(seen) | scorer.fingerprints()
    if resumed is not None:
        same_data(resumed, data)  # the model is known again by its vectors
    wanted = unlike_files.model_of(config)
    models = fingerprint.of_models(wanted, None)
    compute = gpu.start(config.gpu)

    def open_run() -> Run:
        return Run.create(config.name, plain, directory=directory) if resumed is None else Run.claim(resumed)

    with recorded(open_run) as record:
        started = time.monotonic()
        if resumed is None:
            record.start(plain, overrides, describe(data | models))
        else:
            record.go_on()
        encoder = Encoder.build(wanted, config.pooling, seed=config.seed).to(compute.device)
        encoder.use(in_use(encoder.prompt, config.evaluation.prompt, config.evaluation.text_edit))
        loaded = time.monotonic()
        say(f"pooling {encoder.pooling.name}, {compute.device.type} {config.evaluation.precision}")
        unlike_files.tell(config, overrides, encoder.backbone.declared)
        if shared is not None:
            tell(record.path, shared)
        write_skipped(skipped, record.path)
        if warning := skip_warning(skipped):
            say(f"warning: {warning}")
        kept = Kept(record.path)
        kept.hold_to(encoder.encode(scorer.first_sentences(_PROBED)))
        scored = scorer.score(encoder, "score", kept=kept)
        scores, main = scoring.flat(scored), scoring.main_score(scored, {})
        drawing.draw(scored, record.path / "plots")
        for task in plan.tasks.values():
            drawing.draw_dropout_map(task, encoder, record.path / "plots")
        seconds = {"load": round(loaded - started, 3), "evaluate": round(time.monotonic() - loaded, 3)}
        record.results(
            {
                "main": main,
                "scores": scores,
                "intervals": finite_intervals(scored),
                "baseline": {},
                "notes": {"precision": config.evaluation.precision, **scoring.notes(scored)},
                "counts": counts,
                "seconds": seconds,
            }
        )
        score_table.report(scored, {}, record.path)
        return Outcome(str(record.path), main)


def _check_places(plan: "EvaluatePlan", store: "Store") -> None:
    """Refuse, all together, what the evaluation needs and is not there.

    Raises:
        DataError: for data and models.
    """
    from embedrun import backbone
    from embedrun.commands import scoring
    from embedrun.errors import DataError

    splits = scoring.splits_of(plan.tasks, plan.dataset)
    splits += [] if plan.seen is None else [(plan.seen, "train")]
    problems = scoring.unreadable(splits, store) + scoring.lacking(plan.tasks)
    try:
        backbone.locate(plan.config.model, plan.config.revision)
    except DataError as fault:
        problems = fault.problems + problems
    if problems:
        raise DataError(problems)
