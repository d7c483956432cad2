"""What scoring costs: sentences, how often each is encoded, operations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedrun.backbone.shape import Shape, Size
from embedrun.config import BackboneConfig, EvaluationConfig
from embedrun.estimate.memory import longest_scored
from embedrun.estimate.tokens import sampled, token_counter
from embedrun.experiment.scoring import Scorer
from embedrun.family import family_name
from embedrun.prompt import in_use, of


@dataclass(frozen=True)
class Scored:
    """What a run scores.

    Args:
        test: the distinct sentences of the evaluation tasks.
        dev: those that select, and of `training.dev_tasks`.
        beside: tasks whose work is not, or not only, to encode these; the rest of it is not counted.
    """

    test: Sequence[str]
    dev: Sequence[str] = ()
    beside: Sequence[str] = ()

    @classmethod
    def by(cls, test: Scorer, dev: Scorer | None = None) -> "Scored":
        """What these score."""
        both = [test] if dev is None else [test, dev]
        tasks = {name: task for one in both for name, task in one.tasks.items()}
        beside = [
            name for name, task in tasks.items() if not task.sources() or family_name(task) == "senteval"
        ]
        return cls(_distinct(test), () if dev is None else _distinct(dev), beside)

    def lines(self, dev_scores: int) -> list[list[str]]:
        """Table rows of what is encoded in a training run, and how often."""
        found = []
        if self.test:
            found.append(f"{len(self.test):,} test sentences, before training and after it")
        if self.dev:
            found.append(f"{len(self.dev):,} dev sentences, {_times(dev_scores)} times")
        if self.beside:
            found.append(f"further work of {', '.join(self.beside)} is not counted")
        return [["" if place else "scoring", line] for place, line in enumerate(found or ["nothing"])]

    def operations(
        self,
        backbone: BackboneConfig,
        evaluation: EvaluationConfig,
        shape: Shape,
        size: Size,
        *,
        dev_scores: int | None = None,
    ) -> float:
        """Floating-point operations of encoding, about.

        Two for each weight outside the embeddings and token. Attention between tokens is not included.

        `dev_scores` are those of a training run, in which the test sentences are encoded twice; None: an
        evaluation.

        Raises:
            DataError: if the model's tokenizer file is none.
        """
        trained = of(backbone.prompt) if backbone.prompt else shape.prompt
        prompt = in_use(trained, evaluation.prompt, evaluation.text_edit)
        count, most = token_counter(shape.tokenizer), longest_scored(backbone, evaluation, shape, size)

        def tokens(texts: Sequence[str]) -> float:
            if not texts:
                return 0.0
            read = [texts[place] for place in sampled(len(texts))]
            each = count(read if prompt is None else list(map(prompt.filled, read)))
            return float(np.minimum(each, most).mean()) * len(texts)

        total = tokens(self.test) * (1 if dev_scores is None else 2)
        if dev_scores is not None:
            total += tokens(self.dev) * _times(dev_scores)
        return 2 * (size.weights - size.embeddings - size.pooler) * total


def _times(dev_scores: int) -> int:
    """How often the dev sentences are encoded: also before the first step, and with the weights selected."""
    return dev_scores + 2


def _distinct(scorer: Scorer) -> list[str]:
    return list(dict.fromkeys(text for rows in scorer.every_rows() for text in rows.sentences()))
