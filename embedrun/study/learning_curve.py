r"""The score by the number of training rows: a power law, and what it predicts for more rows.

.. math:: s(n) = a - b\,n^{-c}

(Hestness et al. 2017, Deep Learning Scaling is Predictable, Empirically), fitted by least squares to all
runs. The interval of the score of a further run at *n* rows is
:math:`s(n) \pm t \sqrt{\sigma^2 + \nabla^\top \Sigma \nabla}`: the residual variance and the covariance of
*a*, *b*, *c* by the delta method, with Student's t of (runs - 3) degrees of freedom.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import curve_fit
from scipy.stats import t

from embedrun.table.preset import Cell, Column, Row, Table

Points = Sequence[tuple[int, float]]  # training rows and score of each run
_FEWEST = 3  # sizes, one for each of a, b and c


@dataclass(frozen=True)
class PowerLaw:
    """The fitted *a*, *b* and *c*, ``(3,)``, their covariance, ``(3, 3)``, and how the runs stray from it."""

    parameters: np.ndarray
    covariance: np.ndarray
    variance: float
    freedom: int

    def at(self, rows: float) -> tuple[float, float, float]:
        """The score that is expected at so many rows, and the ends of the 95 % interval of a run."""
        a, b, c = self.parameters
        power = rows**-c
        slope = np.array([1.0, -power, b * np.log(rows) * power])  # (3,)
        error = float(np.sqrt(self.variance + slope @ self.covariance @ slope))
        half = float(t.ppf(0.975, self.freedom)) * error
        mean = float(a - b * power)
        return mean, mean - half, mean + half


def fitted_law(points: Points) -> PowerLaw | None:
    """The power law through the runs; None where they have fewer than three sizes, or none fits."""
    rows, scores = (np.array(values, dtype=float) for values in zip(*points, strict=True))  # (runs,) each
    if len(np.unique(rows)) < _FEWEST or len(rows) <= _FEWEST:
        return None
    begin = (scores.max() + 1.0, (scores.max() + 1.0 - scores.min()) * rows.min() ** 0.5, 0.5)
    limits = ([-np.inf, 0.0, 1e-3], [np.inf, np.inf, 5.0])
    try:
        parameters, covariance = curve_fit(_law, rows, scores, p0=begin, bounds=limits, maxfev=20_000)
    except (RuntimeError, ValueError):
        return None
    if not np.isfinite(covariance).all():
        return None
    freedom = len(rows) - _FEWEST
    variance = float(np.sum((scores - _law(rows, *parameters)) ** 2) / freedom)
    return PowerLaw(parameters, covariance, variance, freedom)


def _law(rows: np.ndarray, a: float, b: float, c: float) -> np.ndarray:
    return a - b * rows**-c


def held_out(points: Points) -> tuple[int, float, PowerLaw | None]:
    """The largest size, the mean score there, and the law that the smaller sizes give."""
    largest = max(rows for rows, _ in points)
    law = fitted_law([point for point in points if point[0] < largest])
    return largest, float(np.mean([score for rows, score in points if rows == largest])), law


def table_of(overrides: Sequence[str], fractions: Sequence[float], seeds: Sequence[int]) -> Table:
    """A recipe on each fraction of its training rows as the rows of a table."""
    given = {f"{one:g}": (*overrides, f"training.data_fraction={one:g}") for one in fractions}
    rows = [Row(label, cells=(Cell("train", words, ("score",)),)) for label, words in given.items()]
    column = Column("score", key="main")
    return Table(
        name="learning_curve", title="Learning curve", rows=rows, seeds=list(seeds), columns=(column,)
    )
