import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from finished_runs import finished

from embedrun.commands.runs import main
from embedrun.errors import ConfigError
from embedrun.report.diff import group

pytestmark = pytest.mark.usefixtures("here")

KEY = "sts/stsb/spearman"


def trained(name: str, scores: Mapping[int, float], config: dict[str, Any] | None = None) -> list[str]:
    """Finished runs in a folder, one a seed."""
    return [
        str(finished(f"{name}/{seed}", {"seed": seed, **(config or {})}, {KEY: score}))
        for seed, score in scores.items()
    ]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["--diff", *words]) == 0
    return capsys.readouterr().out


def data(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    return json.loads(said(capsys, *words, "--json"))


def row(out: str) -> str:
    return " ".join(next(line for line in out.splitlines() if line.startswith(KEY)).split())


def test_the_same_seeds_are_paired_and_a_folder_stands_for_its_runs(capsys):
    # Differences 1, 2, 3: mean 2, error 1/√3, t of two degrees of freedom 4.3027; p is 1 - √(12/14).
    a = trained("a", {1: 80, 2: 81, 3: 82}, {"loss": "angle"})
    b = trained("b", {1: 81, 2: 83, 3: 85}, {"loss": "cosent"})
    found = data(capsys, *a, "--", *b)
    assert found == data(capsys, "outputs/a", "outputs/b")
    assert (found["a"]["seeds"], found["configuration"]) == (
        [1, 2, 3],
        {"loss": {"a": ["angle"] * 3, "b": ["cosent"] * 3}, "seed": {"a": [1, 2, 3], "b": [1, 2, 3]}},
    )
    (one,) = found["comparisons"]
    assert (one["key"], one["paired"], one["difference"]) == (KEY, True, 2)
    assert (one["a"], one["b"]) == ({"mean": 81, "sd": 1, "n": 3}, {"mean": 83, "sd": 2, "n": 3})
    assert one["low"] == pytest.approx(2 - 4.302653 / math.sqrt(3))
    assert one["p"] == pytest.approx(1 - math.sqrt(12 / 14))
    out = said(capsys, "outputs/a", "outputs/b")
    assert row(out) == f"{KEY} 81.00 ± 1.00 83.00 ± 2.00 3, 3 +2.00 -0.48 to +4.48 0.0742"
    assert ["loss", "angle", "cosent"] in [line.split() for line in out.splitlines()]
    assert "paired t over the seeds" in out
    assert "Left out: how much other test rows move a score" in out
    assert max(map(len, said(capsys, "outputs/a", "outputs/b").splitlines())) <= 111


def test_other_seeds_are_compared_by_welch(capsys):
    # Variances of the means 1 and 0: one degree of freedom, t 12.7062.
    a, b = trained("a", {1: 80, 2: 82}), trained("b", {3: 85, 4: 85, 5: 85})
    out = said(capsys, *a, "--", *b)
    assert row(out) == f"{KEY} 81.00 ± 1.41 85.00 ± 0.00 2, 3 +4.00 -8.71 to +16.71 0.1560"
    assert "Welch's t, since the seeds of A and B are not the same" in out


def test_runs_that_differ_in_more_than_the_seed_are_no_group():
    trained("a", {1: 80, 2: 81}, {"training": {"lr": 1e-5}})
    trained("a/other", {3: 80}, {"training": {"lr": 2e-5}})
    trained("b", {1: 80})
    with pytest.raises(
        ConfigError, match=r"3 runs of A .* differ in training\.lr \(1e-05, 2e-05\); name runs"
    ):
        main(["--diff", "outputs/a", "outputs/b"])


def test_only_finished_runs_of_a_folder_count_and_the_others_are_said():
    trained("a", {1: 80, 2: 82, 3: 99})
    status = Path("outputs/a/3/status.json")
    status.write_text(json.dumps({**json.loads(status.read_text()), "state": "failed"}))
    found = group("A", [Path("outputs/a")])
    assert list(found.runs) == [1, 2]
    assert found.notes == ("A: 1 of 3 runs below outputs/a have not finished and are left out",)


def test_evaluations_and_second_stages_have_the_seed_of_the_model_they_begin_with():
    for seed, score in ((1, 80.0), (2, 82.0)):
        (first,) = trained("first", {seed: score}, {"training": {"lr": 1e-5}})
        finished(f"scored/{seed}", {"seed": 42, "model": first}, {KEY: score})
        finished(f"second/{seed}", {"seed": seed, "backbone": {"name": f"{first}/model"}}, {KEY: score})
    assert list(group("A", [Path("outputs/scored")]).runs) == [1, 2]
    assert list(group("A", [Path("outputs/second")]).runs) == [1, 2]
    (other,) = trained("first", {3: 80.0}, {"training": {"lr": 2e-5}})
    finished("scored/3", {"seed": 42, "model": other})
    with pytest.raises(ConfigError, match=r"model: training\.lr \(1e-05, 2e-05\)"):
        group("A", [Path("outputs/scored")])
