"""Metrics out: the run's own files always; Weights & Biases and TensorBoard on request, at arm's length."""

from embedrun.tracking.choice import mirrors, problems
from embedrun.tracking.local import Tracker, cut
from embedrun.tracking.mirror import Mirror

__all__ = ["Mirror", "Tracker", "cut", "mirrors", "problems"]
