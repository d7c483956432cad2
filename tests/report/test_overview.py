"""The page over many runs: what it holds, what it says of seeds, and that names of runs stay text."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
from finished_runs import finished
from many_runs import DEV, TEST

from embedrun.report.overview import collect, render
from embedrun.runs.listing import find

HOSTILE = "</script><script>alert(1)</script><!-- & \u2028\u2029\u202e"


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("outputs")


def seed(number: int, score: float | None, name: str | None = None, **config: object) -> Path:
    """A finished run of one seed, with a test and a dev score."""
    scores = {} if score is None else {TEST: score, DEV: score + 1}
    return finished(name or f"seed-{number}", {"seed": number, **config}, scores or None)


def held(folder: Path = Path("outputs")) -> dict:
    return json.loads(json.dumps(collect(find([folder]), folder)))


def parts(page: str) -> tuple[dict, str, str]:
    """The data, the script and the style of a page."""
    data, script = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    return json.loads(data), script, style


def test_runs_that_differ_in_the_seed_alone_have_mean_deviation_and_number(outputs):
    for number, score in ((1, 80.0), (2, 82.0), (3, 84.0)):
        seed(number, score)
    seed(4, 50.0, training={"lr": 1.0})
    found = held()
    (group,) = found["groups"]
    # (4 + 0 + 4) / 2 is the square of the deviation.
    expected = {"key": TEST, "digits": 2, "value": 82.0, "sd": 2.0, "n": 3, "before": None}
    assert group["main"] == expected
    assert sorted(run.get("group", -1) for run in found["runs"]) == [-1, 0, 0, 0]


def test_groups_that_cannot_be_told_from_the_best_are_tied_for_it(outputs):
    for lr, scores in ((0.1, (80.0, 82.0)), (0.2, (80.5, 81.0)), (0.3, (70.0, 72.0))):
        for number, score in enumerate(scores):
            seed(number, score, f"{lr}-{number}", training={"lr": lr})
    found = held()
    # Of the two seeds, 0.2 has 0.5 more and 1 less than 0.1, whose mean is 81; 0.3 has 10 less in both.
    told = {row["label"][-3:]: row.get("standing") for row in found["groups"]}
    assert told == {"0.1": "tied for the best", "0.2": "tied for the best", "0.3": None}
    assert not any("standing" in run for run in found["runs"])


def test_of_single_runs_the_interval_over_rows_decides_and_without_one_none_is_best(outputs):
    for name, score in (("a", 80.0), ("b", 79.0), ("c", 70.0)):
        seed(1, score, name, training={"lr": score})
    assert not any("standing" in run for run in held()["runs"])
    for name, score in (("a", 80.0), ("b", 79.0), ("c", 70.0)):
        results = {"main": {"name": TEST, "value": score}, "intervals": {TEST: [score - 1.5, score + 1.5]}}
        (outputs / name / "results.json").write_text(json.dumps(results))
    assert [run.get("standing") for run in held()["runs"]] == ["tied for the best", "tied for the best", None]
    shutil.rmtree(outputs / "b")
    assert [run.get("standing") for run in held()["runs"]] == ["best", None]


def test_curves_are_the_training_loss_and_the_dev_score_that_selects(outputs):
    rows = [(1, "train", "loss", 3.0), (2, "train", "loss", 2.5), (1, "train", "loss/cosent", 9.0),
            (0, "dev", "a_dev/spearman", 1.0), (0, "dev", DEV, 40.0), (2, "dev", DEV, 45.0),
            (2, "dev", f"{DEV}_clean", 44.0)]  # fmt: skip
    lines = [json.dumps(dict(zip(("step", "split", "name", "value"), row, strict=True))) for row in rows]
    (seed(1, 80.0, training={"select_by": DEV}) / "metrics.jsonl").write_text("\n".join(lines))
    (seed(2, 80.0) / "results.json").write_text('{"main": {"name": "x", "value": 1}, "intervals": 5}')
    (run,), (broken,) = (held()[part] for part in ("runs", "broken"))
    assert broken.startswith("outputs/seed-2: not a run directory as embedrun writes it")
    assert run["curves"] == [[[1, 3.0], [2, 2.5]], [[0, 40.0], [2, 45.0]]]
    assert run["dev"]["key"] == DEV


def test_whatever_a_run_is_called_its_name_is_text_in_the_data_and_nothing_else(outputs):
    path = seed(1, 80.0, name=None, training={"lr": HOSTILE})
    seed(2, 80.0, training={"lr": f"{HOSTILE} too"})
    scores = {"main": {"name": HOSTILE, "value": 1.0}, "scores": {HOSTILE: 1.0}}
    (path / "results.json").write_text(json.dumps(scores))
    (path / "status.json").write_text(json.dumps({"state": HOSTILE, "error": HOSTILE}))
    (outputs / "broken").mkdir()
    (outputs / "broken/status.json").write_text("{")
    page = render(collect(find([outputs]), outputs), title=HOSTILE)
    assert page.count("<script") == page.count("</script>") == 2
    data, script, style = parts(page)
    said = HOSTILE.replace("\u202e", "\ufffd")
    one_line = " ".join(said.split())
    assert [run["values"] for run in data["runs"]] == [[one_line], [f"{one_line} too"]]
    assert said in [run["main"]["key"] for run in data["runs"]]
    inside = page.partition('id="data">')[2].partition("</script>")[0]
    assert not re.search("[<>&\u202e]", inside)
    assert "broken/status.json: cannot be read" in page
    assert "alert" not in script + style


def test_the_only_script_and_the_only_style_are_those_that_the_policy_allows(outputs):
    seed(1, 80.0)
    page = render(held(), title="outputs")
    _, script, style = parts(page)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    wanted = {kind: f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
              for kind, text in (("script", script), ("style", style))}  # fmt: skip
    assert policy.startswith(
        f"default-src 'none'; script-src '{wanted['script']}'; style-src '{wanted['style']}'; img-src data:;"
    )
    assert "unsafe" not in policy
    assert not re.search(r"\s(style|on\w+)=", page.replace(script, "").replace(style, ""))
