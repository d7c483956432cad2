from pathlib import Path

import numpy as np
import pytest

from embedrun import plot

PNG = b"\x89PNG\r\n\x1a\n"


def test_saturation_draws_the_shares_the_gradient_and_both_ends_of_the_zone(tmp_path: Path, axes):
    cosine = np.array([-0.95, 0.0, 0.9, 0.91])  # the last two share a bar, and three are in the zone
    plot.saturation(cosine, 0.9, "toy", tmp_path / "zone.png")
    (axis,) = axes
    words = [text.get_text() for text in axis.get_legend().get_texts()]
    assert words[2] == "saturation zone, |cosine| ≥ 0.9: 75.0 % of 4 pairs"
    upper, lower, bars = axis.patches
    assert (upper.get_x(), upper.get_width()) == pytest.approx((0.9, 0.1))
    assert (lower.get_x(), lower.get_width()) == pytest.approx((-1, 0.1))
    shares = bars.get_data()
    assert {shares.edges[place]: share for place, share in enumerate(shares.values) if share} == {
        -0.95: 0.25,
        0.0: 0.25,
        0.9: 0.5,
    }
    (curve,) = [other for other in axis.figure.axes if other is not axis]
    x, y = curve.lines[0].get_data()
    # Half the largest gradient where the cosine is √3/2, which is an angle of 30 degrees.
    assert np.interp(-np.sqrt(3) / 2, x[::-1], y[::-1]) == pytest.approx(0.5, abs=1e-3)
    assert (tmp_path / "zone.png").read_bytes().startswith(PNG)


def test_the_legend_covers_nothing(tmp_path: Path, axes, legend_is_free):
    plot.saturation(np.linspace(-1, 1, 9), 0.5, "toy", tmp_path / "zone.png")
    assert legend_is_free(axes[0])
