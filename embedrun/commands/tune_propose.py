"""The values of the next trial: a function of the trials before it and the seed, never of who asks."""

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from embedrun.commands.tune_distributions import Searched

_DRAWS = 50  # proposals that may all have been tried before; only small sets of values need more than one


def propose(
    trials: Sequence[Any], searched: Sequence[Searched], *, seed: int, number: int, lowest: bool
) -> dict[str, Any] | None:
    """Values that no trial has had, from a tree-structured Parzen estimator; None where all have been tried.

    The sampler begins anew for each trial with a seed of its own: a search that was killed proposes what it
    would have proposed, and of two workers each proposes something else.

    Args:
        trials: optuna's, those that still run among them.
        searched: the options.
        seed: of the search.
        number: of the trial.
        lowest: whether a lower score is better.
    """
    import numpy as np
    import optuna

    tried = {_key(trial.params) for trial in trials}
    left = _untried(searched, tried)
    first = None if left is None else next(left, None)
    if left is not None and first is None:
        return None
    state = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what optuna calls experimental
        memory = optuna.create_study(
            direction="minimize" if lowest else "maximize",
            # All options together; what others still run counts as bad, so that it is not proposed again.
            sampler=optuna.samplers.TPESampler(seed=state, multivariate=True, constant_liar=True),
        )
        memory.add_trials([trial for trial in trials if trial.state != optuna.trial.TrialState.WAITING])
        for _ in range(_DRAWS):
            drawn = memory.ask()
            values = {one.name: one.rounded(one.suggest(drawn)) for one in searched}
            if _key(values) not in tried:
                return values
            memory.tell(drawn, state=optuna.trial.TrialState.FAIL)
    return first


def _key(values: Mapping[str, Any]) -> Hashable:
    return frozenset(values.items())


def _untried(searched: Sequence[Searched], tried: set[Hashable]) -> Iterator[dict[str, Any]] | None:
    """The combinations that are left, or None where they are not counted."""
    every = [values for one in searched if (values := one.every()) is not None]
    if len(every) < len(searched):
        return None
    names = [one.name for one in searched]
    combinations = (dict(zip(names, values, strict=True)) for values in _combinations(every))
    return (values for values in combinations if _key(values) not in tried)


def _combinations(every: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Like itertools.product, which would first hold every whole number of a wide range in memory."""
    if not every:
        yield ()
        return
    for value in every[0]:
        for rest in _combinations(every[1:]):
            yield value, *rest
