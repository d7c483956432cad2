"""Plots, as PNG files that stay readable in grey: training, cosines against gold scores, groups, samples."""

from embedrun.plot.groups import histogram, lengths
from embedrun.plot.pairs import density, distribution
from embedrun.plot.points import dropout_map
from embedrun.plot.steps import curves
from embedrun.plot.zone import saturation

__all__ = ["curves", "density", "distribution", "dropout_map", "histogram", "lengths", "saturation"]
