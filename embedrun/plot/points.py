"""Points of a plane, one kind a sentence."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedrun.plot.figure import legend_above, plain, save, subplots

# Shape and grey together tell six sentences apart.
_KINDS = (("o", "white"), ("^", "0.55"), ("s", "black"), ("D", "0.8"), ("v", "0.3"), ("P", "white"))
_LONGEST = 55  # characters of a sentence in the legend: so many of the widest Latin ones fit


def dropout_map(points: np.ndarray, sentences: Sequence[str], title: str, path: Path) -> None:
    """Dropout samples of related sentences in the plane (ArcCSE Figure 1).

    Args:
        points: from t-SNE, ``(sentences, draws, 2)``.
        sentences: what was sampled, at most six.
        title: of the plot.
        path: of the PNG.

    Raises:
        ValueError: if there are more sentences than can be told apart.
    """
    if len(sentences) > len(_KINDS):
        raise ValueError(f"dropout_map: at most {len(_KINDS)} sentences, got {len(sentences)}")
    figure, (axis,) = subplots(1, 1, (8, 6.5), title)
    for place, (own, sentence) in enumerate(zip(points, sentences, strict=True)):
        marker, fill = _KINDS[place]
        axis.plot(
            own[:, 0],
            own[:, 1],
            linestyle="none",
            marker=marker,
            markersize=6,
            markerfacecolor=fill,
            markeredgecolor="black",
            markeredgewidth=0.7,
            label=f"{'abcdef'[place]}: {_short(sentence)}",
        )
    legend_above(axis, fontsize="small")
    axis.set(xlabel="t-SNE, first axis (no unit)", ylabel="t-SNE, second axis (no unit)")
    save(figure, path)


def _short(sentence: str) -> str:
    """One line of the sentence, for a legend."""
    line = " ".join(sentence.split())
    return plain(line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "...")
