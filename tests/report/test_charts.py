"""Metrics by step as SVG, and the plots of a run."""

import base64
import json
import re
from pathlib import Path

import pytest

from embedrun.report.charts import Metrics, Speed, draw, images, panels, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (12.3, 13.6, [12, 12.5, 13, 13.5, 14]),
        (0, 1, [0, 0.5, 1]),
        (37, 53, [30, 40, 50, 60]),
        (5, 5, [4.5, 5, 5.5]),
        (0, 0, [-1, 0, 1]),
        (0.0, 5e-324, [-1, 0, 1]),
        (-3e-323, 3e-323, [-1, 0, 1]),
        (1e-310, 2e-310, [-1, 0, 1]),
    ],
)
def test_ticks_are_round_and_hold_all_values_between_them(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize("power", [-12, -3, 0, 7, 250])
def test_there_are_two_to_six_ticks_for_any_size_of_number(power):
    for low, high in [(1.0, 1.7), (-3.0, 9.9), (2.0, 2.0001)]:
        found = ticks(low * 10.0**power, high * 10.0**power)
        assert 2 <= len(found) <= 6
        assert found[0] <= low * 10.0**power * (1 + 1e-9 * (1 if low > 0 else -1))
        assert found[-1] >= high * 10.0**power * (1 - 1e-9)


def test_a_line_runs_from_the_left_to_the_right_with_low_values_below():
    chart = draw("loss", {"loss": [(1, 0.0), (2, 0.5), (3, 1.0)]})
    assert chart is not None
    assert chart.lines[0].path == "M0.00 100.00h0L50.00 50.00L100.00 0.00"
    assert [(tick.label, tick.at) for tick in chart.x_ticks] == [("1", 0.0), ("3", 100.0)]
    assert [(tick.label, tick.at) for tick in chart.y_ticks] == [("0", 100.0), ("0.5", 50.0), ("1", 0.0)]


def test_an_undefined_value_breaks_the_line():
    chart = draw("loss", {"loss": [(0, 0.0), (1, None), (2, 1.0)]})
    assert chart is not None
    assert chart.lines[0].path == "M0.00 100.00h0M100.00 0.00h0"
    assert chart.lines[0].dots == "M0.00 100.00h0M100.00 0.00h0"


def test_a_series_without_a_defined_value_is_not_drawn():
    assert draw("loss", {"loss": [(1, None)]}) is None
    assert draw("loss", {"loss": []}) is None
    both = draw("loss", {"a": [(1, None)], "b": [(1, 2.0)]})
    assert both is not None
    assert [line.name for line in both.lines] == ["b"]


def test_one_point_stands_in_the_middle():
    chart = draw("loss", {"loss": [(7, 2.0)]})
    assert chart is not None
    assert chart.lines[0].path == "M50.00 50.00h0"
    assert [tick.label for tick in chart.x_ticks] == ["7"]


def test_shares_have_an_axis_from_nothing_to_all():
    chart = draw("angle", {"active": [(1, 0.25), (2, 0.5)]}, shares=True)
    assert chart is not None
    assert [tick.label for tick in chart.y_ticks] == ["0 %", "50 %", "100 %"]
    assert chart.alt == "angle, active: 25.0 % at step 1, 50.0 % at step 2; lowest 25.0 %, highest 50.0 %"


def test_a_long_line_is_thinned_and_keeps_its_extremes():
    points: list[tuple[int, float | None]] = [(step, 1.0 + (step % 7) / 10) for step in range(100_000)]
    points[54_321] = (54_321, 9.0)
    points[77_777] = (77_777, 0.0)
    chart = draw("loss", {"loss": points})
    assert chart is not None
    path = chart.lines[0].path
    assert len(re.findall("[ML]", path)) <= 700
    assert chart.lines[0].dots == ""
    assert [tick.label for tick in chart.y_ticks] == ["0", "5", "10"]
    assert "54.32 10.00" in path
    assert "77.78 100.00" in path


def test_the_chart_in_words_names_both_ends_and_the_extremes():
    chart = draw("loss", {"loss": [(1, 3.0), (2, 5.0), (1000, 1.0)]}, best=(2, 5.0))
    assert chart is not None
    assert chart.alt == "loss: 3 at step 1, 1 at step 1,000; lowest 1, highest 5"
    assert chart.mark == "M0.10 16.67h0"


STEPS = [(1, 0.5), (2, 0.25)]


def of(train: dict, dev: dict | None = None) -> list:
    series = {("train", name): points for name, points in train.items()}
    return panels(Metrics(series | {("dev", name): points for name, points in (dev or {}).items()}))


def test_loss_and_dev_stand_first_then_terms_then_what_they_compare_then_the_optimizer():
    train = {"lr": STEPS, "gradient_norm": STEPS, "loss": STEPS, "loss/angle": STEPS, "active/angle": STEPS,
             "violated/angle": STEPS}  # fmt: skip
    found = of(train, {"stsb_dev/spearman": [(0, 50.0), (2, 60.0)], "stsb_dev/spearman_clean": [(0, 1.0)]})
    assert [panel.title for panel in found] == [
        "Loss and dev scores", "Terms of the loss", "Comparisons of the terms", "Optimizer"
    ]  # fmt: skip
    assert [[chart.title for chart in panel.charts] for panel in found] == [
        ["training loss", "stsb_dev/spearman"], ["angle"], ["angle"], ["learning rate", "gradient norm"]
    ]  # fmt: skip
    assert [line.name for line in found[2].charts[0].lines] == ["active", "violated"]


def test_the_best_step_is_the_first_of_the_highest_and_never_the_start():
    (panel,) = of({}, {"stsb_dev/spearman": [(0, 90.0), (10, 80.0), (20, 85.0), (30, 85.0), (40, None)]})
    assert panel.charts[0].note == "best 85.00 at step 20"
    (panel,) = of({}, {"stsb_dev/spearman": [(0, 90.0)]})
    assert panel.charts[0].note == ""


def test_a_run_without_values_has_no_panel():
    assert of({}) == []
    assert of({"loss": [(1, None)]}) == []


def test_numbers_that_cannot_be_shares_have_a_chart_of_their_own():
    (panel,) = of({"active/odd": [(1, 3.0)]})
    assert panel.title == "Optimizer"


def test_names_without_end_are_cut_and_counted():
    (panel,) = of({f"loss/{place}": STEPS for place in range(30)})
    assert (len(panel.charts), panel.left_out) == (12, 18)


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def row(step: object, value: object, name: str = "loss", split: str = "train") -> dict[str, object]:
    return {"step": step, "epoch": 0.0, "split": split, "name": name, "value": value}


def test_values_come_by_split_and_name_in_order_of_step_and_the_later_line_counts(tmp_path):
    path = write(
        tmp_path / "m", row(2, 5.0), row(1, 4.0), row(2, 3.0), row(0, 9.0, "stsb_dev/spearman", "dev")
    )
    found = Metrics.read(path)
    assert found.of("train") == {"loss": [(1, 4.0), (2, 3.0)]}
    assert found.of("dev") == {"stsb_dev/spearman": [(0, 9.0)]}
    assert found.faults == 0


def test_an_undefined_value_stays_a_point_without_a_value(tmp_path):
    assert Metrics.read(write(tmp_path / "m", row(1, None), row(2, "x"))).of("train") == {
        "loss": [(1, None), (2, None)]
    }


def test_lines_that_cannot_be_read_are_counted(tmp_path):
    broken = [
        '{"step": 3, "na',
        "[1]",
        '"text"',
        row("3", 1.0),
        row(10**30, 1.0),
        "[" * 5000,
        "{" + " " * 20_000 + "}",
    ]
    found = Metrics.read(write(tmp_path / "m", row(1, 4.0), *broken))
    assert found.of("train") == {"loss": [(1, 4.0)]}
    assert found.faults == len(broken)


def test_bytes_that_are_no_text_are_a_broken_line(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(json.dumps(row(1, 4.0)).encode() + b"\n\xff\xfe\n")
    assert Metrics.read(path).faults == 1


def test_there_is_nothing_where_there_is_no_file(tmp_path):
    assert Metrics.read(tmp_path / "m") == Metrics({}, 0)
    assert Speed.read(tmp_path / "s") == Speed(None, None)


def test_the_speed_is_the_median_and_the_memory_the_most(tmp_path):
    rows = [{"rows_per_second": rate, "memory": memory} for rate, memory in ((1, None), (90, 5), (10, 7))]
    assert Speed.read(write(tmp_path / "s", *rows, "broken")) == Speed(10.0, 7.0)


PNG = b"\x89PNG\r\n\x1a\n"


def test_a_plot_is_a_data_address_with_the_score_of_its_set_in_words(tmp_path):
    (tmp_path / "stsb_density.png").write_bytes(PNG + b"a")
    (found,), left_out = images(tmp_path, {"stsb": "sts/stsb/spearman"}, {"sts/stsb/spearman": 81.234})
    assert found.address == "data:image/png;base64," + base64.b64encode(PNG + b"a").decode()
    assert found.caption == "Density of the cosines by human score, stsb"
    assert found.alt == "Plot: Density of the cosines by human score, stsb. sts/stsb/spearman 81.23."
    assert left_out == []


def test_plots_come_in_the_order_of_the_sets_and_without_the_curves(tmp_path):
    for name in ("a_scores", "b_scores", "curves", "dropout_map"):
        (tmp_path / f"{name}.png").write_bytes(PNG)
    found, _ = images(tmp_path, {"b": "x", "a": "y"}, {})
    assert [image.file for image in found] == ["b_scores.png", "a_scores.png", "dropout_map.png"]
    assert found[2].alt == "Plot: Related sentences under many dropout masks, on a plane."


def test_what_is_no_picture_is_not_shown_and_named(tmp_path):
    (tmp_path / "page.png").write_bytes(b"<svg onload='x'>")
    (tmp_path / "large.png").write_bytes(PNG + bytes(4_000_001))
    (tmp_path / "folder.png").mkdir()
    found, left_out = images(tmp_path, {}, {})
    assert found == []
    assert [line.partition(".png")[0].rpartition("/")[2] for line in left_out] == ["folder", "large", "page"]


def test_there_need_be_no_folder(tmp_path):
    assert images(tmp_path / "plots", {}, {}) == ([], [])


def test_lines_without_the_words_asked_for_are_not_read(tmp_path):
    names = ("loss", "loss/cosent", "lr")
    rows = [{"step": 1, "split": "train", "name": name, "value": 2.0} for name in names]
    (tmp_path / "m").write_text("\n".join([*map(json.dumps, rows), "{ broken"]))
    found = Metrics.read(tmp_path / "m", holding=('"name": "loss"', '"name": "lr"'))
    assert list(found.series) == [("train", "loss"), ("train", "lr")]
    assert found.faults == 0
    assert Metrics.read(tmp_path / "m").faults == 1
