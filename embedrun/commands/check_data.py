"""What `embedrun check` reads: the training rows, and the test rows that they hold."""

from dataclasses import dataclass
from typing import Any

from embedrun.rows import Rows


@dataclass(frozen=True)
class CheckedData:
    """The data of a run, as far as it is on this machine.

    Args:
        train: rows of the training split; None: not all is here.
        contamination: lines on the evaluation pairs that training and selection see.
    """

    train: Rows | None
    contamination: list[str]

    @classmethod
    def read(cls, plan: Any) -> "CheckedData":
        """The data of a checked configuration.

        Raises:
            ConfigError: if training would refuse to begin with it.
            DataError: if it is there and faulty.
        """
        from embedrun.dataset import named
        from embedrun.experiment import scoring
        from embedrun.experiment.losses import check_active
        from embedrun.store import Store

        store = Store.find(plan.config.data_dir)
        missing = named.unreadable([(plan.dataset, "train")], store)
        train = None if missing else plan.dataset.read("train", store)
        if train is not None:
            training = plan.config.training
            train = train.drawn(training.data_fraction, plan.config.seed)
            check_active(plan.losses, training.batch_size, train.targets, len(train))
        splits = [(plan.dev, "dev"), *scoring.splits_of(plan.tasks, plan.dataset)]
        splits += [] if plan.seen is None else [(plan.seen, "train")]
        problems = [*missing, *named.unreadable(splits, store)]
        if problems or train is None:
            said = "; ".join(dict.fromkeys(problems))
            return cls(train, [f"contamination: not known without the data: {said}"])
        return cls(train, _contamination(plan, train, store))


def _contamination(plan: Any, train: Rows, store: Any) -> list[str]:
    from embedrun.evaluation.heldout import Heldout
    from embedrun.experiment import data, scoring
    from embedrun.experiment.scoring import OWN, check_select_by, own_keys

    evaluation = plan.config.evaluation
    seen = [train, *([] if plan.seen is None else [plan.seen.read("train", store)])]
    test = scoring.Scorer.read(plan.tasks, plan.dataset, store, evaluation)
    dev = scoring.Scorer.read({OWN: Heldout(split="dev")}, plan.dev, store, evaluation)
    (own,) = dev.rows[OWN].values()
    if (select_by := plan.config.training.select_by) is not None and not plan.dev_tasks:
        check_select_by(select_by, own_keys(own.name))
    trained, selected = data.of_run(seen, test.rows, dev.rows)
    return [
        f"also in the training data: {trained.summary() or 'no dev or test row'}",
        f"also in the dev data: {selected.summary() or 'no test row'}",
    ]
