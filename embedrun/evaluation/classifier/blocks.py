"""The rows of many logistic regressions: scaled once, cut into blocks, shared by every fit."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

_STRIP = 128  # columns
# Scale² × rows from which on float32 is not enough: the penalty of a row is 1 / (C scale² rows).
_EXACT_FROM = 2e7


class Scaling:
    """Centre features on 0, scale them to a root mean square length of 1, and add a column of ones.

    The intercept takes up the centre and the penalty the scale, so the classifier stays the same; single
    precision is then enough whatever the features' unit.

    Args:
        features: float, ``(rows, dim)``.

    Raises:
        ValueError: if a feature is not finite.
    """

    def __init__(self, features: np.ndarray) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            self.mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)  # (dim,)
            square = np.square(features - self.mean).sum(axis=1, dtype=np.float64).mean()
        if not np.isfinite(square):
            raise ValueError(
                "senteval: the model gives vectors that are not finite; they cannot be classified"
            )
        self.scale = float(np.sqrt(square)) or 1.0
        # Far below 1e-8 the penalty of a row drowns in rounding, as with the states of large models.
        exact = self.scale**2 * len(features) > _EXACT_FROM
        self.dtype = torch.float64 if exact else torch.float32

    def __call__(self, features: np.ndarray) -> Tensor:
        """The scaled features and ones, of type `dtype`, ``(rows, dim + 1)``."""
        scaled = torch.ones(len(features), features.shape[1] + 1, dtype=self.dtype)  # (rows, dim + 1)
        scaled[:, :-1] = torch.from_numpy((features - self.mean) / np.float32(self.scale))
        return scaled

    def penalties(self, regularisers: Sequence[float]) -> Tensor:
        """1 / C of the scaled features, ``(regularisers,)``."""
        return torch.tensor([1 / (value * self.scale**2) for value in regularisers], dtype=self.dtype)


class Blocks:
    """The rows of several fits in blocks, such as folds; a fit has all blocks, or all but one.

    Two classes have one logit, more have one each.

    Args:
        features: of all rows, the last column ones, float32, ``(rows, dim + 1)``.
        classes: of each row, from 0, int64, ``(rows,)``.
        count: of classes.
        members: the rows of each block.
        into: where the blocks' features are put, float32, at least as large; new memory by default. Memory
            that the process has had before is faster.

    Raises:
        ValueError: if there are fewer than two classes.
    """

    def __init__(
        self,
        features: Tensor,
        classes: Tensor,
        count: int,
        members: Sequence[np.ndarray],
        into: Tensor | None = None,
    ) -> None:
        if count < 2:
            raise ValueError(f"senteval: a classifier needs two classes at least, got {count}")
        sizes = [len(block) for block in members]
        order = torch.from_numpy(np.concatenate(members))  # (rows,)
        room = features.new_empty(len(order), features.shape[1]) if into is None else into
        self.memory = room[: len(order)]
        torch.index_select(features, 0, order, out=self.memory)
        self.features = self.memory.split(sizes)  # (rows, dim + 1) each
        self.classes = classes[order].split(sizes)  # (rows,) each
        hot = one_hot(classes[order], count).T.to(features.dtype)  # (classes, rows)
        self.target = (hot[1:] if count == 2 else hot).split(sizes, dim=1)  # (logits, rows) each
        self.sizes = torch.tensor(sizes)  # (blocks,)
        self.rows, self.logits = len(order), 1 if count == 2 else count

    def logits_of(self, weights: Tensor, block: int) -> Tensor:
        """Weights ``(fits, logits, dim + 1)``, result ``(fits, logits, rows)``."""
        flat = weights.reshape(-1, weights.shape[-1])  # (fits x logits, dim + 1)
        return (flat @ self.features[block].T).view(len(weights), self.logits, -1)

    def probabilities(self, weights: Tensor, block: int) -> Tensor:
        """Of each logit's class: weights ``(fits, logits, dim + 1)``, result ``(fits, logits, rows)``."""
        logit = self.logits_of(weights, block)  # (fits, logits, rows)
        return logit.sigmoid_() if self.logits == 1 else logit.softmax(1)

    def gradients(self, weights: Tensor) -> Tensor:
        """Of the summed negative log likelihood, by block, ``(blocks, fits, logits, dim + 1)``."""
        return torch.stack([self._gradient(weights, block) for block in range(len(self.features))])

    def gradient(self, weights: Tensor, left_out: Tensor) -> Tensor:
        """Of the summed negative log likelihood, without the block that each fit leaves out.

        Args:
            weights: ``(fits, logits, dim + 1)``.
            left_out: block of each fit, -1 for none, ``(fits,)``.
        """
        total = torch.zeros_like(weights)  # (fits, logits, dim + 1)
        for block in range(len(self.features)):
            total += self._gradient(weights, block, left_out == block)
        return total

    def _gradient(self, weights: Tensor, block: int, without: Tensor | None = None) -> Tensor:
        residual = self.probabilities(weights, block).sub_(self.target[block])  # (fits, logits, rows)
        if without is not None:
            residual[without] = 0
        flat = residual.view(-1, residual.shape[-1])  # (fits x logits, rows)
        return (flat @ self.features[block]).view_as(weights)

    def curvature(self, weights: Tensor | None = None) -> Tensor:
        """A Hessian of the mean negative log likelihood, by logit, ``(logits, dim + 1, dim + 1)``.

        Of more than two classes the parts between two logits are left out and the others are scaled by
        K / (K - 1), which is exact for equal probabilities.

        Args:
            weights: where, ``(logits, dim + 1)``; None for 0, where the logits share one, ``(1, ...)``.
        """
        width = self.memory.shape[1]
        total = torch.zeros(1 if weights is None else self.logits, width, width, dtype=self.memory.dtype)
        for block, features in enumerate(self.features):
            for own, spread in zip(total, self._spread(weights, block), strict=True):
                _add_products(own, features, spread)
        return (total.triu() + total.triu(1).mT) / self.rows

    def _spread(self, weights: Tensor | None, block: int) -> Tensor:
        """p (1 - p) of each row, scaled, ``(logits, rows)``."""
        if weights is None:
            equal = 1 / 4 if self.logits == 1 else 1 / self.logits
            return torch.full((1, len(self.features[block])), equal, dtype=self.memory.dtype)
        probability = self.probabilities(weights[None], block)[0]  # (logits, rows)
        scale = 1 if self.logits == 1 else self.logits / (self.logits - 1)
        return scale * probability * (1 - probability)

    def predict(self, weights: Tensor, block: int) -> Tensor:
        """The class of each row of a block: weights ``(fits, logits, dim + 1)``, result ``(fits, rows)``."""
        return decide(self.logits_of(weights, block))

    def held_out(self, weights: Tensor) -> np.ndarray:
        """The accuracy on each block of the fits without it, in [0, 1], ``(penalties, blocks)``.

        Args:
            weights: ``(penalties, blocks, logits, dim + 1)``.
        """
        correct = [self.predict(weights[:, block], block) == own for block, own in enumerate(self.classes)]
        return np.stack([found.numpy().mean(axis=1) for found in correct], axis=1)


def decide(logit: Tensor) -> Tensor:
    """The likelier class, int64: logits ``(..., logits, rows)``, result ``(..., rows)``."""
    return (logit[..., 0, :] > 0).long() if logit.shape[-2] == 1 else logit.argmax(-2)


def _add_products(total: Tensor, features: Tensor, weights: Tensor) -> None:
    """Add the weighted sum of the rows' outer products to the upper triangle of ``(dim + 1, dim + 1)``."""
    weighted = features * weights[:, None]  # (rows, dim + 1)
    for start in range(0, len(total), _STRIP):  # in strips, as half of a whole product would be for nothing
        strip = weighted[:, start : start + _STRIP].T  # (strip, rows)
        total[start : start + _STRIP, start:].addmm_(strip, features[:, start:])
