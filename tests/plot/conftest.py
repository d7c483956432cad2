from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of what is drawn, to look at."""
    seen: list[Any] = []
    original = Figure.subplots

    def subplots(self: Figure, *given: Any, **more: Any) -> Any:
        drawn = original(self, *given, **more)
        seen.extend(drawn.flat)
        return drawn

    monkeypatch.setattr(Figure, "subplots", subplots)
    return seen


@pytest.fixture
def legend_is_free() -> Any:
    """Whether an axis's legend is in the picture and covers neither its axis nor the title."""

    def free(axis: Any) -> bool:
        figure = axis.figure
        figure.draw_without_rendering()
        legend, title = axis.get_legend().get_window_extent(), figure._suptitle.get_window_extent()
        whole = figure.bbox
        inside = legend.x0 >= whole.x0 and legend.x1 <= whole.x1 and title.y1 <= whole.y1
        return inside and not legend.overlaps(title) and not legend.overlaps(axis.get_window_extent())

    return free
