"""Score any encoder: a hub model, a model folder or a finished run directory."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from embedrun.commands.arguments import parse
from embedrun.commands.outcome import Outcome, recorded
from embedrun.commands.start import start

_EXAMPLES = (
    "embedrun evaluate model=sentence-transformers/all-MiniLM-L6-v2 evaluation=sts",
    "embedrun evaluate model=RUN_DIR evaluation=heldout dataset=toy",
)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun evaluate`."""
    request = parse("evaluate", __doc__ or "", argv, _EXAMPLES)
    return 0 if request is None else start(request)


def run(plain: Mapping[str, Any], overrides: list[str], directory: str | None) -> Outcome:
    """Score the model of a composed configuration.

    Args:
        plain: resolved plain data.
        overrides: what the user changed.
        directory: the run directory, where the user named one.

    Raises:
        ConfigError: with every fault of the configuration.
        DataError: with everything that is missing, before a run directory is made.
    """
    from embedrun.commands.plan import plan_evaluate

    plan = plan_evaluate(plain)
    from embedrun import backbone, gpu
    from embedrun.commands import scoring
    from embedrun.commands.contamination import Contamination, tell
    from embedrun.commands.skipped import skip_warning, skipped_in, write_skipped
    from embedrun.config import BackboneConfig
    from embedrun.console import say
    from embedrun.encoder import Encoder
    from embedrun.environment import describe
    from embedrun.errors import DataError
    from embedrun.run import Run
    from embedrun.store import Store

    config = plan.config
    store = Store.find(config.data_dir)
    splits = scoring.splits_of(plan.tasks, plan.dataset)
    splits += [] if plan.seen is None else [(plan.seen, "train")]
    problems = scoring.unreadable(splits, store)
    try:
        backbone.locate(config.model, config.revision)
    except DataError as fault:
        problems = fault.problems + problems
    if problems:
        raise DataError(problems)
    scorer = scoring.Scorer.read(plan.tasks, plan.dataset, store, config.evaluation.batch_tokens)
    seen = [] if plan.seen is None else [plan.seen.read("train", store)]
    shared = Contamination.find(seen, scorer.rows) if seen else None
    if shared is not None:
        scorer = scorer.without(shared.clean())
    skipped = skipped_in([*seen, *scorer.every_rows()])
    counts = scorer.counts() | ({"skipped_rows": len(skipped)} if skipped else {})
    compute = gpu.start(config.gpu)
    with recorded(lambda: Run.create(config.name, plain, directory=directory)) as record:
        started = time.monotonic()
        wanted = BackboneConfig(
            name=config.model,
            revision=config.revision,
            max_length=config.max_length,
            attention="sdpa",
            scratch=None,
        )
        encoder = Encoder.build(wanted, config.pooling, seed=config.seed).to(compute.device)
        loaded = time.monotonic()
        record.start(plain, overrides, describe(scoring.fingerprints_of(seen) | scorer.fingerprints()))
        if shared is not None:
            tell(record.path, shared)
        write_skipped(skipped, record.path)
        if warning := skip_warning(skipped):
            say(f"warning: {warning}")
        scored = scorer.score(encoder, "score")
        scores, main = scoring.flat(scored), scoring.main_score(scored, {})
        scoring.write_predictions(scored, record.path / "predictions")
        scoring.plot_predictions(scored, record.path / "plots")
        seconds = {"load": round(loaded - started, 3), "evaluate": round(time.monotonic() - loaded, 3)}
        record.results({"main": main, "scores": scores, "baseline": {}, "counts": counts, "seconds": seconds})
        scoring.report(scored, {}, record.path)
        return Outcome(str(record.path), main)
