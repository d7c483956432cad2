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
_POINTS = 100  # the range of a score
_FEWEST = 3  # sizes, one for each of a, b and c


@dataclass(frozen=True)
class PowerLaw:
    """The fitted curve; *b* and *c*, which are positive, as logarithms, *b* with `smallest` rows as the unit.

    Args:
        parameters: *a*, log *b* and log *c*, ``(3,)``; `covariance` is theirs, ``(3, 3)``.
        variance: of the runs about the curve, with `freedom` degrees of freedom.
    """

    smallest: float
    parameters: np.ndarray
    covariance: np.ndarray
    variance: float
    freedom: int

    def at(self, rows: float) -> tuple[float, float, float]:
        """The score that is expected at so many rows, and the ends of the 95 % interval of a run."""
        a, log_b, log_c = self.parameters
        size, c = rows / self.smallest, np.exp(log_c)
        lost = np.exp(log_b) * size**-c
        slope = np.array([1.0, -lost, lost * c * np.log(size)])  # (3,)
        error = float(np.sqrt(self.variance + slope @ self.covariance @ slope))
        half = float(t.ppf(0.975, self.freedom)) * error
        mean = float(a - lost)
        return mean, mean - half, mean + half


def fitted_law(points: Points) -> PowerLaw | None:
    """The power law through the runs; None where they have fewer than three sizes, or do not tell one."""
    rows, scores = (np.array(values, dtype=float) for values in zip(*points, strict=True))  # (runs,) each
    if len(np.unique(rows)) < _FEWEST or len(rows) <= _FEWEST:
        return None
    smallest, above = float(rows.min()), float(scores.max()) + 1
    begin = (above, np.log(above - scores.min()), np.log(0.5))
    try:
        parameters, covariance = curve_fit(_law, rows / smallest, scores, p0=begin, maxfev=20_000)
    except RuntimeError:
        return None
    freedom = len(rows) - _FEWEST
    variance = float(np.sum((scores - _law(rows / smallest, *parameters)) ** 2) / freedom)
    law = PowerLaw(smallest, parameters, covariance, variance, freedom)
    if not np.isfinite([*covariance.flat, variance]).all():
        return None
    _, low, high = law.at(float(rows.max()))
    return law if high - low < _POINTS else None  # else the scores have no trend that could be told


def _law(size: np.ndarray, a: float, log_b: float, log_c: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        return a - np.exp(log_b) * size ** -np.exp(log_c)


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
