import json
from pathlib import Path

from embedrun.report.charts import Metrics, Speed


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
