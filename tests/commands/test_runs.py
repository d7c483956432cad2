import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.commands import run_diff, run_list
from embedrun.commands.run_files import RunFiles, as_text, flattened
from embedrun.commands.run_predictions import STS_SETS, Predictions, score_key
from embedrun.commands.runs import main
from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.sts import SETS
from embedrun.run import Run

ENVIRONMENT = {"command": "embedrun train", "versions": {"torch": "2.13.0"}, "data": {"stsb/test": "aa"}}
GOLD = [0.0, 1.0, 2.0, 3.0]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the command runs in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finished(
    name: str,
    config: dict[str, Any] | None = None,
    scores: dict[str, float] | None = None,
    predictions: dict[str, dict[str, Any]] | None = None,
    environment: dict[str, Any] | None = None,
) -> Path:
    """A finished run in the folder `outputs/<name>`."""
    run = Run.create("trial", {}, directory=f"outputs/{name}")
    run.start({"name": "trial", "seed": 1, **(config or {})}, [], environment or ENVIRONMENT)
    scores = scores or {"sts/stsb/spearman": 80.0}
    key, value = next(iter(scores.items()))
    run.results({"main": {"name": key, "value": value}, "scores": scores})
    run.end("finished")
    (run.path / "predictions").mkdir()
    for file, columns in (predictions or {}).items():
        pq.write_table(pa.table(columns), run.path / "predictions" / f"{file}.parquet")
    return run.path


def table(out: str) -> list[list[str]]:
    """The cells of the lines below the heading of a table, two blanks between them."""
    lines = [line for line in out.split("\n\n")[0].splitlines() if line]
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[2:]]


def diff(capsys: pytest.CaptureFixture[str], a: Path, b: Path, *more: str) -> str:
    assert main(["--diff", str(a), str(b), *more]) == 0
    return capsys.readouterr().out


def diff_data(capsys: pytest.CaptureFixture[str], a: Path, b: Path) -> dict[str, Any]:
    return json.loads(diff(capsys, a, b, "--json", "--draws", "100"))


# The list.


def test_each_run_has_a_line_with_its_state_the_options_that_differ_and_its_main_score(capsys):
    finished("one", {"pooling": {"name": "cls"}})
    finished("two", {"pooling": {"name": "mean"}}, {"sts/stsb/spearman": 81.234})
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "pooling.name" in out
    assert "seed" not in out  # the same in both
    first, second = table(out)
    assert [first[0], first[1], first[2], *first[4:]] == [
        "outputs/one", "finished", "trial", "cls", "sts/stsb/spearman", "80.00"
    ]  # fmt: skip
    assert second[4:] == ["mean", "sts/stsb/spearman", "81.23"]


def test_of_many_options_three_have_a_column_and_the_rest_are_named_most_common_first(capsys):
    finished("one", {"loss": {"weight": 1}, "a": 1, "b": 1, "c": 1})
    finished("two", {"a": 2, "b": 2, "c": 2, "data_dir": "elsewhere"})
    assert main([]) == 0
    out = capsys.readouterr().out
    heading, *_ = out.splitlines()
    assert [word for word in heading.split() if word in ("a", "b", "c")] == ["a", "b", "c"]
    assert "also different: loss.weight (" in out
    assert "data_dir" not in out  # it cannot change a result


def test_how_a_run_was_evaluated_comes_behind_how_it_was_trained():
    configs = [{"evaluation": {"x": n}, "seed": n, **({"loss": 1} if n else {})} for n in range(2)]
    runs = [RunFiles(Path("r"), {}, config, {}, {}) for config in configs]
    assert run_list.differing(runs) == {"seed": [0, 1], "loss": [None, 1], "evaluation.x": [0, 1]}


@pytest.mark.parametrize(
    ("heartbeat", "state"),
    [
        ("2026-03-01T11:59:30+00:00", "running, last sign 30 s ago"),
        ("2026-03-01T09:30:00+00:00", "running, last sign 2 h ago"),
        ("2026-03-01T13:15:00+02:00", "running, last sign 45 min ago"),
        ("2026-02-01T12:00:00+00:00", "running, last sign 28 days ago"),
        ("2026-03-01T12:00:05+00:00", "running, last sign 0 s ago"),  # a clock that is ahead
        ("soon", "running"),
    ],
)
def test_a_running_run_says_how_old_its_last_sign_is(heartbeat, state):
    run = RunFiles(Path("r"), {"state": "running", "heartbeat": heartbeat}, {}, {}, {})
    found = run_list.Found([run], [], [])
    assert table(run_list.table(found, datetime(2026, 3, 1, 12, tzinfo=UTC)))[0][1] == state


def test_runs_stand_in_the_order_in_which_they_began(capsys):
    for day, name in ((2, "b"), (1, "c"), (3, "a")):
        path = finished(name) / "status.json"
        moment = datetime(2026, 1, day, tzinfo=UTC) + timedelta(hours=1)
        path.write_text(json.dumps({"state": "finished", "started": moment.isoformat()}))
    assert main([]) == 0
    assert [line[0] for line in table(capsys.readouterr().out)] == ["outputs/c", "outputs/b", "outputs/a"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("status.json", "{"),
        ("status.json", "[1]"),
        ("status.json", '{"step": NaN}'),
        ("config.yaml", "a: [1"),
        ("config.yaml", "a: &x [*x]"),
        ("results.json", "\x00"),
        ("results.json", "[" * 100_000),
    ],
)
def test_a_broken_run_is_one_line_and_the_others_are_listed(file, content, capsys):
    finished("good")
    (finished("broken") / file).write_text(content)
    assert main([]) == 0
    captured = capsys.readouterr()
    assert [line[0] for line in table(captured.out)] == ["outputs/good"]
    assert captured.err.startswith(f"passed over: outputs/broken/{file}: ")
    assert captured.err.count("\n") == 1


def test_a_file_that_is_no_text_is_broken_too(capsys):
    (finished("broken") / "status.json").write_bytes(b"\xff\xfe")
    assert main([]) == 0
    assert "passed over: outputs/broken/status.json: cannot be read" in capsys.readouterr().err


def test_folders_without_a_run_are_named_once_at_the_top(capsys, here):
    finished("deep/one")
    (here / "outputs" / "notes" / "old" / "older").mkdir(parents=True)
    (here / "outputs" / ".hidden").mkdir()
    assert main([]) == 0
    captured = capsys.readouterr()
    assert captured.err == "no run in outputs/notes\n"
    assert table(captured.out)[0][0] == "outputs/deep/one"


def test_links_are_not_followed_and_what_is_in_a_run_is_not_looked_at(capsys, here):
    run = finished("one")
    (here / "outputs" / "latest").symlink_to(run.resolve())
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "status.json").write_text("{}")
    assert main([]) == 0
    assert len(table(capsys.readouterr().out)) == 1


def test_a_run_that_failed_before_it_began_has_a_line(capsys):
    run = Run.create("trial", {}, directory="outputs/failed")
    run.end("failed", "no such model")
    assert main(["outputs/failed"]) == 0
    assert table(capsys.readouterr().out)[0] == ["outputs/failed", "failed", "-", "-", "-", "-"]


def test_a_name_with_control_characters_does_not_reach_the_terminal(capsys):
    finished("one", {"name": "x\x1b[31m"})
    assert main([]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_list_as_json_says_everything(capsys, here):
    finished("one", {"a": {"b": 1}})
    finished("two", {"a": {"b": [2, 3]}})
    (here / "outputs" / "empty").mkdir()
    assert main(["--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert [run["options"] for run in found["runs"]] == [{"a.b": 1}, {"a.b": [2, 3]}]
    assert found["runs"][0]["main"] == {"name": "sts/stsb/spearman", "value": 80.0}
    assert found["foreign"] == ["outputs/empty"]
    assert captured.err == ""


def test_without_any_run_there_is_nothing_on_stdout(capsys):
    assert main([]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "no runs below outputs\n")


# The command line.


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nowhere"], "there is no folder 'nowhere'"),
        (["--draws", "500"], "--draws goes with --diff"),
        (["--diff", "a"], "expected 2 arguments"),
        (["--diff", "a", "b", "c"], "takes exactly two run directories"),
        (["--diff", "a", "b", "--draws", "99"], "must be 100 or more, got 99"),
        (["--diff", "a", "."], "'a' is no folder"),
        (["--diff", "a", "."], "'.' is no run directory"),
    ],
)
def test_bad_usage_is_refused(argv, message):
    with pytest.raises(ConfigError, match=message):
        main(argv)


def test_help_is_printed_and_names_the_correction_that_is_not_made(capsys):
    assert main(["--help"]) == 0
    assert "None is corrected" in capsys.readouterr().out


# The comparison.


def test_options_versions_and_data_that_differ_are_said_and_the_command_line_is_not(capsys):
    a = finished("a", {"pooling": {"name": "cls"}, "only": None})
    b = finished(
        "b",
        {"pooling": {"name": "mean"}},
        environment={"command": "x", "versions": {"torch": "2.14.0"}, "data": {"stsb/test": "bb"}},
    )
    found = diff_data(capsys, a, b)
    assert found["configuration"] == {"only": {"a": None}, "pooling.name": {"a": "cls", "b": "mean"}}
    assert list(found["environment"]) == ["data.stsb/test", "versions.torch"]
    out = diff(capsys, a, b, "--draws", "100")
    assert ["pooling.name", "cls", "mean"] in [line.split() for line in out.splitlines()]
    assert ["only", "null", "-"] in [line.split() for line in out.splitlines()]


def test_a_run_does_not_differ_from_itself(capsys):
    a = finished("a", predictions={"stsb": {"gold": GOLD, "score": [1.0, 2.0, 3.0, 4.0]}})
    out = diff(capsys, a, a, "--draws", "100")
    assert "configuration: no difference" in out
    assert "environment: no difference" in out


def test_every_score_that_both_have_is_compared_and_the_others_are_named(capsys):
    a = finished("a", scores={"x/spearman": 50.0, "y/spearman": 1.0})
    b = finished("b", scores={"x/spearman": 52.5, "z/spearman": 1.0})
    out = diff(capsys, a, b)
    assert ["x/spearman", "50.00", "52.50", "+2.50"] in [line.split() for line in out.splitlines()]
    assert "only A has: y/spearman" in out
    assert "only B has: z/spearman" in out


def test_a_prediction_file_of_both_gives_its_score_an_interval_and_a_p_value(capsys):
    gold = np.arange(40.0)
    worse = gold.copy()
    worse[::2] = gold[::2][::-1]
    score = 100 * float(np.corrcoef(worse, gold)[0, 1])  # both are ranks already
    a = finished(
        "a", scores={"sts/stsb/spearman": score}, predictions={"stsb": {"gold": gold, "score": worse}}
    )
    b = finished("b", scores={"sts/stsb/spearman": 100}, predictions={"stsb": {"gold": gold, "score": gold}})
    (found,) = diff_data(capsys, a, b)["comparisons"]
    assert found["key"] == "sts/stsb/spearman"
    assert found["difference"] == pytest.approx(100 - score)
    assert 0 < found["low"] < found["difference"] < found["high"]
    assert found["p"] == 1 / 1001
    assert found["rows"] == 40
    out = diff(capsys, a, b)
    assert "1,000 draws" in out
    assert "10,000 draws" in out
    assert "uncorrected" in out
    assert "<0.0001" in out
    assert out.count("sts/stsb/spearman") == 1  # not in the other table too


def test_the_average_of_the_seven_sets_is_compared_only_where_all_are_there(capsys):
    generator = np.random.default_rng(0)

    def predictions(noise: float) -> dict[str, dict[str, Any]]:
        return {
            name: {"gold": GOLD * 10, "score": np.array(GOLD * 10) + noise * generator.normal(size=40)}
            for name in STS_SETS
        }

    seven, worse = predictions(0.1), predictions(1.0)
    found = diff_data(capsys, finished("a", predictions=worse), finished("b", predictions=seven))
    *each, whole = found["comparisons"]
    assert [one["key"] for one in each] == [f"sts/{name}/spearman" for name in SETS]
    assert whole["key"] == "sts/avg/spearman"
    assert whole["difference"] == pytest.approx(sum(one["difference"] for one in each) / 7)
    assert whole["rows"] == 280
    assert whole["high"] - whole["low"] < min(one["high"] - one["low"] for one in each)
    del seven["sts12"]
    found = diff_data(capsys, finished("c", predictions=worse), finished("d", predictions=seven))
    assert "sts/avg/spearman" not in [one["key"] for one in found["comparisons"]]
    assert found["not_compared"] == {"sts12": "only A has it"}


def test_a_score_that_its_prediction_file_does_not_give_is_said(capsys):
    columns = {"stsb": {"gold": GOLD, "score": GOLD}}
    a = finished("a", scores={"sts/stsb/spearman": 99.985}, predictions=columns)
    b = finished("b", scores={"sts/stsb/spearman": 99.5}, predictions=columns)
    assert diff_data(capsys, a, b)["notes"] == [
        "B: sts/stsb/spearman is 99.50 in results.json, but 100.00 by predictions/stsb.parquet"
    ]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"gold": [0.0, 1.0], "score": [1.0, 2.0]}, "A has 4 rows, B has 2"),
        ({"gold": [0.0, 1.0, 3.0, 2.0], "score": GOLD}, "gold differs in 2 of 4 rows"),
        (
            {"gold": GOLD, "predicted": GOLD},
            "A holds x_dev/spearman (correlation), B holds x_dev/spearman (accuracy)",
        ),
    ],
)
def test_files_of_other_rows_are_not_compared_and_the_reason_is_said(columns, why, capsys):
    a = finished("a", predictions={"x_dev": {"gold": GOLD, "score": GOLD}})
    b = finished("b", predictions={"x_dev": columns})
    assert diff_data(capsys, a, b)["not_compared"] == {"x_dev": why}
    assert f"not compared, {why}: x_dev" in diff(capsys, a, b)


def test_right_and_wrong_rows_are_compared_as_retrieval(capsys):
    a = finished("a", predictions={"retrieval_flickr30k": {"correct": [0, 0, 1, 1]}})
    b = finished("b", predictions={"retrieval_flickr30k": {"correct": [1, 1, 1, 1]}})
    (found,) = diff_data(capsys, a, b)["comparisons"]
    assert (found["key"], found["a"], found["b"]) == ("retrieval/flickr30k/strict_accuracy", 50, 100)


def test_an_undefined_difference_is_null_and_a_dash(capsys):
    constant = {"x_dev": {"gold": GOLD, "score": [1.0] * 4}}
    a, b = (
        finished("a", predictions=constant),
        finished("b", predictions={"x_dev": {"gold": GOLD, "score": GOLD}}),
    )
    (found,) = diff_data(capsys, a, b)["comparisons"]
    assert (found["a"], found["b"], found["difference"], found["p"]) == (None, 100, None, None)
    line = next(line for line in diff(capsys, a, b).splitlines() if line.startswith("x_dev/spearman"))
    assert line.split() == ["x_dev/spearman", "-", "100.00", "-", "-", "-", "4"]


def test_unreadable_files_of_both_runs_are_all_named():
    a = finished(
        "a", predictions={"x": {"gold": GOLD}, "y": {"gold": GOLD, "score": GOLD}, "z": {"correct": [2]}}
    )
    b = finished("b", predictions={"x": {"gold": GOLD}, "z": {"correct": [1]}})
    (b / "predictions" / "y.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError) as fault:
        main(["--diff", str(a), str(b)])
    assert [problem.split(": ")[0].split("/")[1:] for problem in fault.value.problems] == [
        ["a", "predictions", "x.parquet"],
        ["b", "predictions", "y.parquet"],
        ["a", "predictions", "z.parquet"],
    ]


def test_broken_files_of_both_runs_are_named_before_anything_is_compared():
    a, b = finished("a"), finished("b")
    (a / "results.json").write_text("{")
    (b / "config.yaml").write_text("[")
    with pytest.raises(DataError) as fault:
        main(["--diff", str(a), str(b)])
    assert len(fault.value.problems) == 2


def test_the_same_file_draws_the_same_whatever_stands_beside_it(capsys):
    generator = np.random.default_rng(0)
    both = [{"gold": np.arange(30.0), "score": generator.normal(size=30)} for _ in range(2)]
    alone = diff_data(capsys, *(finished(f"{n}1", predictions={"stsb": both[n]}) for n in range(2)))
    beside = diff_data(
        capsys, *(finished(f"{n}2", predictions={"a_dev": both[n], "stsb": both[n]}) for n in range(2))
    )
    first, second = beside["comparisons"]
    assert alone["comparisons"] == [first]
    assert (first["low"], first["high"]) != (second["low"], second["high"])  # other rows are drawn


# Names and values.


@pytest.mark.parametrize(
    ("name", "scores", "key"),
    [
        ("sickr", [], "sts/sickr/spearman"),
        ("stsb_dev", [], "stsb_dev/spearman"),
        ("retrieval_flickr30k", [], "retrieval/flickr30k/strict_accuracy"),
        ("retrieval_dev_mscoco", [], "retrieval_dev/mscoco/strict_accuracy"),
        ("senteval_mr", [], "senteval/mr/accuracy_paper"),
        ("senteval_fast_mr", [], "senteval/mr/accuracy_fast"),
        (
            "senteval_mr",
            [f"senteval/mr/accuracy_paper{end}" for end in ("_std", "", "_seed7", "_seed1")],
            "senteval/mr/accuracy_paper_seed7",  # the file holds the predictions of the first seed
        ),
    ],
)
def test_which_score_a_prediction_file_gives(name, scores, key):
    assert score_key(name, dict.fromkeys(scores, 1.0)) == key


def test_the_sets_are_those_of_the_sts_task():
    assert STS_SETS == SETS


def test_a_gold_column_may_hold_words_where_the_score_is_an_accuracy(tmp_path):
    pq.write_table(pa.table({"gold": ["a", "b"], "predicted": ["a", "a"]}), tmp_path / "x.parquet")
    found = Predictions.read(tmp_path / "x.parquet")
    assert (found.kind, found.figure) == ("accuracy", 50)
    pq.write_table(pa.table({"gold": ["a", "b"], "score": [1.0, 2.0]}), tmp_path / "y.parquet")
    with pytest.raises(DataError, match="column gold holds no numbers"):
        Predictions.read(tmp_path / "y.parquet")


def test_leaves_have_dotted_keys():
    assert flattened({"a": {"b": 1, "c": {}}, "d": [{"e": 1}]}) == {"a.b": 1, "a.c": {}, "d": [{"e": 1}]}


def test_a_long_value_keeps_its_beginning_and_a_long_path_its_end():
    assert as_text("abcdefghij", 8) == "abcde..."
    assert as_text("/data/models/minilm", 12) == "...ls/minilm"
    assert as_text([1, None, "x"], 20) == '[1, null, "x"]'
    assert as_text("two\nlines", 20) == "two lines"


def test_a_diff_of_data_is_that_of_the_command(capsys):
    a, b = finished("a"), finished("b", {"seed": 2})
    assert run_diff.diff(RunFiles.read(a), RunFiles.read(b), draws=100) == diff_data(
        capsys, Path("outputs/a"), b
    )
