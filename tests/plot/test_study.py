from pathlib import Path

import pytest

from embedrun.plot import against, history

PNG = b"\x89PNG\r\n\x1a\n"
METRIC = "toy_dev/spearman"


def drawn(axis) -> dict[str, list[list[float]]]:
    """The points of an axis by what the legend calls them."""
    return {line.get_label(): line.get_xydata().tolist() for line in axis.lines}


@pytest.mark.parametrize(("lowest", "best"), [(False, [3, 5, 5, 5]), (True, [3, 3, 1, 1])])
def test_the_best_so_far_never_gets_worse_and_no_pruned_trial_is_it(tmp_path: Path, axes, lowest, best):
    points = [(0, 3.0, False), (1, 5.0, False), (2, 9.0, True), (4, 1.0, False), (7, -9.0, True)]
    history(points, METRIC, "Study s", tmp_path / "plots" / "history.png", lowest=lowest)
    lines = drawn(axes[0])
    assert lines["finished"] == [[0, 3], [1, 5], [4, 1]]
    assert lines["pruned, at its last dev score"] == [[2, 9], [7, -9]]
    assert lines["best so far"] == [[x, y] for x, y in zip([0, 1, 4, 7], best, strict=True)]
    assert (tmp_path / "plots" / "history.png").read_bytes().startswith(PNG)


def test_a_number_stands_at_its_place_and_the_best_is_marked(tmp_path: Path, axes):
    against(
        [(1e-5, 3.0, False), (1e-3, 5.0, False)],
        (1e-3, 5.0),
        ("training.lr", METRIC),
        tmp_path / "lr.png",
        log=True,
    )
    (axis,) = axes
    assert drawn(axis) == {"finished": [[1e-5, 3], [1e-3, 5]], "best: 5.00": [[1e-3, 5]]}
    assert (axis.get_xscale(), axis.get_xlabel(), axis.get_ylabel()) == ("log", "training.lr", METRIC)


def test_choices_stand_side_by_side_in_their_order_tried_or_not(tmp_path: Path, axes, legend_is_free):
    order = ["$x", "32", "W" * 40, "d", "e"]
    against(
        [("32", 3.0, False), ("e", 1.0, True)], ("32", 3.0), ("a_b", METRIC), tmp_path / "c.png", order=order
    )
    (axis,) = axes
    assert drawn(axis)["finished"] == [[1, 3]]
    assert drawn(axis)["pruned, at its last dev score"] == [[4, 1]]
    words = [text.get_text() for text in axis.get_xticklabels()]
    assert words == [r"\$x", "32", "W" * 21 + "...", "d", "e"]
    assert legend_is_free(axis)


def test_one_trial_is_a_plot_too(tmp_path: Path, axes):
    history([(0, 3.0, False)], METRIC, "Study s", tmp_path / "h.png")
    against([("a", 3.0, False)], ("a", 3.0), ("x", METRIC), tmp_path / "x.png", order=["a", "b"])
    assert len(axes) == 2
