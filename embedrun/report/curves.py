"""Which charts a run has: loss and dev scores, the terms of its loss, the optimizer."""

from collections.abc import Mapping
from dataclasses import dataclass

from embedrun.console import score
from embedrun.report.chart import Chart, Points, draw
from embedrun.report.metrics import Metrics

_MOST = 12  # charts of one panel; no run of ours has more
_CLEAN = "_clean"  # as embedrun/evaluation/clean.py, which imports torch, ends the keys of clean scores
_TERM = "loss/"
_ACTIVITY = ("active", "violated")


@dataclass(frozen=True)
class Panel:
    """Charts that belong together.

    Args:
        title: above them.
        about: what they show; may be empty.
        charts: one at least.
        left_out: how many more there would be.
    """

    title: str
    about: str
    charts: tuple[Chart, ...]
    left_out: int = 0


def panels(metrics: Metrics) -> list[Panel]:
    """The panels of a training run; none of a run without values by step."""
    train = metrics.of("train")
    dev = {key: points for key, points in metrics.of("dev").items() if not key.endswith(_CLEAN)}
    terms = {name.removeprefix(_TERM): points for name, points in train.items() if name.startswith(_TERM)}
    shares = _shares(train)
    used = {"loss", *(f"{_TERM}{term}" for term in terms)}
    used |= {f"{word}/{term}" for term, own in shares.items() for word in own}
    rest = {name: points for name, points in train.items() if name not in used}
    loss = draw("training loss", {"training loss": train.get("loss", [])})
    found = [
        _panel("Loss and dev scores", "", [loss, *(_dev(key, points) for key, points in dev.items())]),
        _panel(
            "Terms of the loss",
            "Each by itself, before its weight.",
            [draw(term, {term: points}) for term, points in terms.items()],
        ),
        _panel(
            "Comparisons of the terms",
            "Active: the share of a batch's comparisons, or of its rows, that a term can learn from. "
            "Violated: the share of the active comparisons that are the wrong way round.",
            [draw(term, own, shares=True) for term, own in shares.items()],
        ),
        _panel(
            "Optimizer", "", [draw(_plain(name), {_plain(name): points}) for name, points in rest.items()]
        ),
    ]
    return [panel for panel in found if panel is not None]


def _panel(title: str, about: str, charts: list[Chart | None]) -> Panel | None:
    drawn = [chart for chart in charts if chart is not None]
    if not drawn:
        return None
    return Panel(title, about, tuple(drawn[:_MOST]), max(0, len(drawn) - _MOST))


def _dev(key: str, points: Points) -> Chart | None:
    """A dev score with its best step, the start left out, marked."""
    trained = [(value, -step) for step, value in points if value is not None and step > 0]
    if not trained:
        return draw(key, {key: points})
    value, step = max(trained)
    return draw(key, {key: points}, note=f"best {score(key, value)} at step {-step:,}", best=(-step, value))


def _shares(train: Mapping[str, Points]) -> dict[str, dict[str, Points]]:
    """The shares of each term that compares, by term; none of numbers that cannot be shares."""
    found: dict[str, dict[str, Points]] = {}
    for name, points in train.items():
        word, slash, term = name.partition("/")
        if slash and word in _ACTIVITY and all(value is None or 0 <= value <= 1 for _, value in points):
            found.setdefault(term, {})[word] = points
    return found


def _plain(name: str) -> str:
    """`learning rate` for `lr`, `gradient norm` for `gradient_norm`."""
    return "learning rate" if name == "lr" else name.replace("_", " ")
