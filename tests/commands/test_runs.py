import json
import re
from datetime import UTC, datetime

import pytest
from finished_runs import finished, table

from embedrun.commands.runs import main
from embedrun.errors import ConfigError
from embedrun.runs import listing
from embedrun.runs.directory import Run
from embedrun.runs.listing import Wanted
from embedrun.runs.reading import RunFiles

pytestmark = pytest.mark.usefixtures("here")


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


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def listed(*runs: RunFiles, width: int | None = None, **wanted) -> str:
    return listing.table(listing.Found(list(runs), []), NOON, Wanted(**wanted), width)


def test_a_running_run_says_its_step_the_time_left_and_its_last_dev_score(tmp_path):
    run = RunFiles(tmp_path)
    steps = {"step": 250, "steps": 1000, "seconds": {"load": 9.0, "train": 50.0}}
    run.status.update(state="running", heartbeat="2026-03-01T11:59:00+00:00", **steps)
    assert table(listed(run))[0][1] == "running, step 250 of 1,000, 2 min 30 s left"  # 750 steps of 0.2 s
    rows = [(0, "dev", "x_dev/spearman", 9.0), (100, "dev", "x_dev/spearman", 71.5), (100, "dev", "z", 1.0),
            (200, "dev", "x_dev/spearman", 72.25), (250, "train", "loss", 0.1)]  # fmt: skip
    lines = [json.dumps(dict(zip(("step", "split", "name", "value"), row, strict=True))) for row in rows]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 3']))
    assert table(listed(run))[0][1].endswith(" left, dev 72.25 at 200")
    run.status.update(heartbeat="2026-03-01T11:00:00+00:00")
    assert table(listed(run))[0][1].endswith(" at 200, last heartbeat 1 h 0 min ago")


@pytest.fixture
def three():
    """Runs of the losses a, b and b, whose scores are 80, 82 and 81, and the learning rates 9, 10 and 11."""
    for place, (loss, score) in enumerate((("a", 80.0), ("b", 82.0), ("b", 81.0))):
        path = finished(
            f"r{place}",
            {"training": {"lr": 9 + place}},
            {"sts/stsb/spearman": score},
            typed=(f"loss={loss}",),
            choices={"loss": loss},
        )
        status = json.loads((path / "status.json").read_text())
        (path / "status.json").write_text(json.dumps(status | {"started": f"2026-01-0{place + 1}T12:00"}))


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (["--sort", "score", "--reverse"], "r0 r2 r1"),
        (["--sort", "sts/stsb/spearman", "--limit", "1"], "r1"),
        (["--sort", "training.lr"], "r0 r1 r2"),  # as numbers, not as words
        (["--filter", "loss=a,b", "--filter", "training.lr=11"], "r2"),
        (["--filter", "state=running,finished", "--limit", "1"], "r2"),
    ],
)
def test_runs_are_sorted_filtered_and_limited(three, arguments, runs, capsys):
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert re.findall(r"outputs/(\w+)", out) == runs.split()
    shown = len(runs.split())
    assert f"{shown} of 3 runs" in out or not 0 < shown < 3


def test_the_columns_are_those_that_were_asked_for(three, capsys):
    assert main(["--columns", "loss,training.lr,sts/stsb/spearman"]) == 0
    assert table(capsys.readouterr().out)[1] == ["outputs/r1", "b", "10", "82.00"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sort", "lss"], "lss: no run here has a column of this name; did you mean 'loss'?"),
        (["--sort", "learning_rate"], "did you mean 'training.lr'?"),  # as other tools call it
        (["--filter", "loss"], "--filter: expected KEY=VALUE, such as state=running, got 'loss'"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused(three, arguments, said):
    with pytest.raises(ConfigError) as refused:
        main(arguments)
    assert said in str(refused.value)


def test_a_run_whose_process_is_gone_was_killed(capsys):
    run = Run.create("trial", {}, directory="outputs/one")
    run.status(state="running", step=5, steps=20, seconds={"train": 10.0})
    assert main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["alive"] is True
    assert main([]) == 0
    assert table(capsys.readouterr().out)[0][1] == "running, step 5 of 20, 30 s left"
    run.release()  # as the end of a process does
    assert main([]) == 0
    assert table(capsys.readouterr().out)[0][1].startswith("killed, step 5 of 20, last heartbeat ")
    assert main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["alive"] is False
    Run.claim(run.path).release()  # to look has left no lock behind


@pytest.mark.parametrize("content", ["{", '{"state": "running", "step": "5", "steps": [20]}'])
def test_a_broken_run_is_one_line_and_the_others_are_listed(content, capsys):
    finished("good")
    (finished("broken") / "status.json").write_text(content)
    assert main([]) == 0
    captured = capsys.readouterr()
    assert [line[0] for line in table(captured.out)] == ["outputs/good"]
    assert captured.err.startswith("passed over: outputs/broken/status.json: ")
    assert captured.err.count("\n") == 1


# The command line.


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nowhere"], "there is no folder 'nowhere'"),
        (["--diff", "a"], "two groups of runs with -- between them"),
        (["--diff", "a", "."], "'.' is no run directory, and no finished run is below it"),
    ],
)
def test_bad_usage_is_refused(argv, message):
    with pytest.raises(ConfigError, match=message):
        main(argv)
