"""SentEval's classifier in its plainest form: one linear layer and one Adam, fit by fit.

Written from the description of the published protocol, as what the engines are held against.
"""

import copy
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class Fitted(NamedTuple):
    """One classifier after its fit."""

    accuracy: float  # on the rows held out for it
    rounds: int  # of four epochs each
    model: nn.Linear

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Class of each row, int64, ``(rows,)``; the first of equal ones."""
        with torch.no_grad():
            return self.model(torch.from_numpy(features)).argmax(1).numpy()


def fit(
    features: np.ndarray,
    labels: np.ndarray,
    decay: float,
    seed: int,
    held_out: tuple[np.ndarray, np.ndarray] | None = None,
    classes: int | None = None,
    most_epochs: int = 200,
) -> Fitted:
    """Train one classifier; without `held_out`, a random twentieth of the rows is held out."""
    classes = int(labels.max()) + 1 if classes is None else classes
    generator = np.random.RandomState(seed)
    if held_out is None:
        order = generator.permutation(len(features))
        split = int(0.05 * len(features))
        held_out = (features[order[:split]], labels[order[:split]])
        features, labels = features[order[split:]], labels[order[split:]]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Linear(features.shape[1], classes)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=decay)
    rows, gold = torch.from_numpy(features), torch.from_numpy(labels)
    dev, dev_gold = torch.from_numpy(held_out[0]), torch.from_numpy(held_out[1])
    best, kept, count, rounds = -1.0, copy.deepcopy(model), 0, 0
    while 4 * rounds <= most_epochs:
        for _ in range(4):
            _epoch(model, optimizer, rows, gold, torch.from_numpy(generator.permutation(len(rows))))
        rounds += 1
        with torch.no_grad():
            accuracy = (model(dev).argmax(1) == dev_gold).double().mean().item()
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(model)
        elif count >= 5:
            break
        else:
            count += 1
    return Fitted(best, rounds, kept)


def _epoch(model: nn.Linear, optimizer: torch.optim.Adam, rows: Tensor, gold: Tensor, order: Tensor) -> None:
    for start in range(0, len(order), 64):
        batch = order[start : start + 64]
        loss = nn.functional.cross_entropy(model(rows[batch]), gold[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
