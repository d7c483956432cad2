"""What the training rows say about the losses: if they can be active, what is positive, if targets agree."""

import inspect
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from embedrun.commands.losses import Losses
from embedrun.errors import ConfigError

_NLI = ("entailment", "neutral", "contradiction")
_FEW, _MANY = 2, 95  # % of the rows; a term that chooses fewer or more of them as positives is warned of


def check_active(losses: Losses, batch_size: int, columns: Mapping[str, Any], rows: int) -> None:
    """Refuse terms that these rows can never make active.

    Args:
        losses: of the run.
        batch_size: as configured; fewer rows make a smaller batch.
        columns: targets of all training rows, as arrays.
        rows: how many there are.

    Raises:
        ConfigError: with every such term.
    """
    if problems := losses.idle(min(batch_size, rows), _tensors(columns)):
        raise ConfigError(problems)


def positives(losses: Losses, columns: Mapping[str, Any], rows: int) -> tuple[dict[str, str], list[str]]:
    """How many rows are positives, for the terms that choose them; and warnings where most or hardly any are.

    Nothing is warned of where no other choice divides the rows more evenly, as where all scores are equal.

    Args:
        losses: of the run.
        columns: targets of all training rows, as arrays.
        rows: how many there are.

    Returns:
        A text by the key of the term, and the warnings.
    """
    said, warnings = {}, []
    for key, found in losses.positives(_tensors(columns)).items():
        share = 100 * found.rows / rows
        said[key] = f"{found.rows:,} of {rows:,} rows ({share:.1f} %) are positives ({found.rule})"
        if found.change and not _FEW <= share <= _MANY:
            meaning = (
                "hardly any row is a positive, so it seldom has a pair to pull together"
                if share < _FEW
                else "nearly all rows are positives, so the texts of unlike pairs are pulled together, too"
            )
            warnings.append(
                f"loss.terms.{key}: {meaning}; pass loss.terms.{key}.{found.change} to make it "
                f"{found.changed:,} rows ({100 * found.changed / rows:.1f} %)"
            )
    return said, warnings


def contradiction(losses: Losses, columns: Mapping[str, Any]) -> str | None:
    """A warning where labels and scores, both read by the terms, order the pairs against each other, or None.

    NLI labels are 0 entailment, 1 neutral, 2 contradiction, so scores should fall from label to label. Where
    they do not, two of the constants are probably swapped.

    Args:
        losses: of the run.
        columns: targets of all training rows, as arrays.
    """
    from embedrun.loss.terms import needs

    read = {target for term in losses.terms.values() for target in needs(term).targets}
    if not {"label", "score"} <= read:
        return None
    label, score = columns["label"], columns["score"]
    means = [
        (name, float(score[label == code].mean())) for code, name in enumerate(_NLI) if (label == code).any()
    ]
    if all(one[1] > next_[1] for one, next_ in pairwise(means)):
        return None
    each = ", ".join(f"{name} {mean:.3g}" for name, mean in means)
    return (
        f"labels and scores contradict each other: the mean scores are {each}, and they should fall in this "
        "order (label 0 entailment, 1 neutral, 2 contradiction); are two of them swapped?"
    )


def sources(losses: Losses) -> list[str]:
    """The papers behind the losses, each once, as the classes of the terms cite them."""
    cited = []
    for term in losses.terms.values():
        text = " ".join((inspect.getdoc(type(term)) or "").split())
        # Up to the end of the sentence or its first half; a full stop after `Eq` ends neither.
        found = re.search(r"Source: (.+?)(?:;|(?<!\bal)(?<!Eq)(?<!Sec)\.)(?= |$)", text)
        cited += [found[1]] if found else []
    return list(dict.fromkeys(cited))


def _tensors(columns: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(values) for name, values in columns.items()}
