from pathlib import Path

import numpy as np
import pytest

from embedrun import plot

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_histogram_shows_the_share_of_each_group(tmp_path: Path, axes):
    groups = {"many": np.array([0.0, 0.0, 0.0, 1.0]), "few": np.array([1.0])}
    plot.histogram(groups, "cosine", "toy", tmp_path / "histogram.png")
    many, few = (patch.get_data() for patch in axes[0].patches)
    assert (many.values[0], many.values[-1], many.values.sum()) == (0.75, 0.25, 1)
    assert (few.values[0], few.values[-1], few.values.sum()) == (0, 1, 1)
    assert (many.edges[0], many.edges[-1], len(many.values)) == (0, 1, 50)
    words = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert words == ["many (n=4, mean 0.25)", "few (n=1, mean 1.00)"]
    assert (tmp_path / "histogram.png").read_bytes().startswith(PNG)


def test_a_histogram_of_one_value_is_drawn(tmp_path: Path):
    plot.histogram({"one": np.array([0.5, 0.5])}, "cosine", "toy", tmp_path / "histogram.png")
    assert (tmp_path / "histogram.png").read_bytes().startswith(PNG)


def test_lengths_are_one_violin_a_split_on_a_logarithmic_scale(tmp_path: Path, axes):
    splits = {"train": np.array([1, 10, 100, 1000]), "dev": np.array([600, 700]), "test": np.array([0, 1])}
    plot.lengths(splits, "words", 512, tmp_path / "lengths.png")
    labels = [label.get_text() for label in axes[0].get_xticklabels()]
    assert labels == [
        "train\nn=4, 25.0 % over 512",
        "dev\nn=2, 100.0 % over 512",
        "test\nn=2, 0.0 % over 512",
    ]
    heights = [path.vertices[:, 1] for path in (body.get_paths()[0] for body in axes[0].collections[:3])]
    assert (heights[0].min(), heights[0].max()) == pytest.approx((0, 3))
    assert heights[2].max() == 0  # an empty text counts as one of length 1
    assert axes[0].lines[0].get_ydata()[0] == pytest.approx(np.log10(512))
    assert (tmp_path / "lengths.png").read_bytes().startswith(PNG)
