"""Metrics by step as data of charts, and the plots of a run."""

import base64
import json
from pathlib import Path

from embedrun.report.page import images, panels
from embedrun.report.scores import Metrics, thinned


def test_a_long_line_is_thinned_and_keeps_its_ends_and_extremes():
    assert thinned([(1, 1.0), (2, None), (3, 5.0)], 200) == [(1, 1.0), (2, None), (3, 5.0)]
    points: list[tuple[int, float | None]] = [(step, 1.0 + (step % 7) / 10) for step in range(10_000)]
    points[5_432] = (5_432, 9.0)
    points[7_777] = (7_777, 0.0)
    points[8_000:9_000] = [(step, None) for step in range(8_000, 9_000)]
    kept = thinned(points, 200)
    assert 100 <= len(kept) <= 200
    assert {points[0], points[-1], (5_432, 9.0), (7_777, 0.0)} <= {*kept}
    assert any(value is None for _, value in kept)  # the line is broken there


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
    assert [[chart["title"] for chart in panel.charts] for panel in found] == [
        ["training loss", "stsb_dev/spearman"], ["angle"], ["angle"], ["learning rate", "gradient norm"]
    ]  # fmt: skip
    shares = found[2].charts[0]
    assert ([line["name"] for line in shares["lines"]], shares["shares"]) == (["active", "violated"], True)
    assert shares["lines"][0]["points"] == STEPS


def test_the_best_step_is_the_first_of_the_highest_and_never_the_start():
    (panel,) = of({}, {"stsb_dev/spearman": [(0, 90.0), (10, 80.0), (20, 85.0), (30, 85.0), (40, None)]})
    assert (panel.charts[0]["note"], panel.charts[0]["mark"]) == ("best 85.00 at step 20", (20, 85.0))
    (panel,) = of({}, {"stsb_dev/spearman": [(0, 90.0)]})
    assert panel.charts[0]["note"] == ""


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


def test_lines_that_cannot_be_read_are_counted(tmp_path):
    broken = [
        '{"step": 3, "na',
        "[1]",
        '"text"',
        row("3", 1.0),
    ]
    found = Metrics.read(write(tmp_path / "m", row(1, 4.0), *broken))
    assert found.of("train") == {"loss": [(1, 4.0)]}
    assert found.faults == len(broken)


PNG = b"\x89PNG\r\n\x1a\n"


def test_a_plot_is_a_data_address_with_the_score_of_its_set_in_words(tmp_path):
    (tmp_path / "stsb_density.png").write_bytes(PNG + b"a")
    (found,) = images(tmp_path, {"stsb": "sts/stsb/spearman"}, {"sts/stsb/spearman": 81.234})
    assert found.address == "data:image/png;base64," + base64.b64encode(PNG + b"a").decode()
    assert found.caption == "Density of the cosines by human score, stsb"
    assert found.alt == "Plot: Density of the cosines by human score, stsb. sts/stsb/spearman 81.23."
