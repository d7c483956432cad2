"""The rows that a run trains on, and those that pick its checkpoint."""

from dataclasses import dataclass

from embedrun.dataset import DataSet, remark_on
from embedrun.dataset.split import hold_out
from embedrun.errors import ConfigError
from embedrun.experiment.plan import TrainPlan, takes_dev, without_dev
from embedrun.experiment.scoring import splits_of
from embedrun.family import family_name
from embedrun.rows import Rows
from embedrun.store import Store

LAST = "nothing: the last checkpoint is kept"


@dataclass(frozen=True)
class Divided:
    """The rows of a run.

    Args:
        every: the training split as it was read.
        train: the rows that are trained on.
        dev: those that select the checkpoint, scored pairs; None where there are none.
        selected_by: what selects, in a few words.
        said: what a person is told of that, a line; empty where a dev split selects of which there is nothing
            to say.
    """

    every: Rows
    train: Rows
    dev: Rows | None
    selected_by: str
    said: str = ""


def read_splits(plan: TrainPlan) -> list[tuple[DataSet, str]]:
    """Every split of a data set that a run reads."""
    tasks = [*splits_of(plan.tasks, plan.dataset), *splits_of(plan.dev_tasks, None)]
    named = [(plan.dataset, "train"), (plan.dev, "dev"), *tasks, (plan.seen, "train")]
    return [(dataset, split) for dataset, split in named if dataset is not None]


def expected(plan: TrainPlan) -> str:
    """`Divided.selected_by`, as far as it is known without the training rows."""
    if plan.dev is not None:
        return f"{family_name(plan.dev)} dev"
    return "5 % of the training rows, held out if there are enough" if plan.holds_out else LAST


def divided(plan: TrainPlan, store: Store, *, with_dev: bool = True) -> Divided:
    """Read the training rows of a plan; where it holds some of them out, these select.

    The rows that are held out depend on the training split and `dataset.split_seed` alone, neither on the
    seed of the run nor on `training.data_fraction`, which draws from the others. Without `with_dev`, the dev
    split of a data set is left unread.

    Raises:
        DataError: if the rows are faulty.
        ConfigError: if an option asks for a dev score that there is not, once the rows are known.
    """
    every, fraction = plan.dataset.read("train", store), plan.config.training.data_fraction
    if plan.dev is not None:
        train = every.drawn(fraction, plan.config.seed)
        dev = plan.dev.read("dev", store) if with_dev else None
        chosen = expected(plan) if dev is None else f"{dev.name} dev"
        return Divided(every, train, dev, chosen, remark_on(plan.dataset, store))
    seed = plan.config.dataset.get("split_seed", 42)
    found = hold_out(every, seed) if plan.holds_out else None
    train = (every if found is None else found.train).drawn(fraction, plan.config.seed)
    if found is None or found.dev is None:
        if unselected := without_dev(plan.config, plan.dataset):
            raise ConfigError(unselected)
        reason = _unranked(plan) if found is None else f"no dev rows, {found.reason}"
        return Divided(every, train, None, LAST, _last(plan, reason))
    what = f"{found.rows:,} of {len(every):,} training rows"
    said = (
        f"{what} are held out to pick the checkpoint, by dataset.split_seed={seed}; they share no text with "
        f"the others. To choose: {_CHOICES}"
    )
    return Divided(every, train, found.dev, f"{what}, held out", said)


_CHOICES = "dataset.dev=FILE, 'dataset.split={train: 0.9, dev: 0.1}' or training.dev=none"


def _unranked(plan: TrainPlan) -> str:
    if plan.config.training.dev == "none":
        return "training.dev=none"
    what = "texts" if plan.dataset.form == "text" else "pairs without a score or label"
    return f"no dev rows, and {what} cannot be ranked"


def _last(plan: TrainPlan, reason: str) -> str:
    kept = f"{reason}: the last checkpoint is kept"
    if plan.config.training.dev == "none":
        return kept
    others = "training.dev=stsb takes those of STS-B"
    own = "dataset.dev=FILE gives dev rows, " if takes_dev(plan.config, plan.dataset) else ""
    return f"{kept}; {own}{others}"
