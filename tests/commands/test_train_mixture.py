"""Several data sets in one run, from what is typed to the run directory."""

import json
from pathlib import Path

import pytest
import same_run
from training_commands import Commands

from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.errors import ConfigError
from embedrun.experiment.plan import plan_train

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

NLI = "nli: {dataset: toy_triplet, train_rows: 96, loss: simcse_supervised, share: 0.5}"
TOY = "toy: {dataset: toy, train_rows: 64, dev_rows: 60, test_rows: 60, loss: sbert, share: 0.25}"
FAQ = "faq: {dataset: pairs, path: faq.csv, loss: cosent, share: 0.25}"
TINY = ("backbone=tiny", "gpu=cpu", "training.batch_size=8", "tracking.log_every=1")


def mixture(*parts: str) -> tuple[str, ...]:
    return ("dataset=mix", f"dataset.parts={{{', '.join(parts)}}}", *TINY)


@pytest.fixture
def faq() -> None:
    lines = [
        f"how do I {word} it,you {word} it so,{number % 5}" for number, word in enumerate("abcdefghijklmnop")
    ]
    Path("faq.csv").write_text("\n".join(["text1,text2,score", *lines]))


def metrics(run: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        found.setdefault(f"{line['split']} {line['name']}", []).append(line["value"])
    return found


@pytest.mark.usefixtures("faq")
def test_parts_train_by_their_own_losses_and_are_scored_and_logged_by_part(embedrun):
    steps = ("training.max_steps=16", "training.evaluate_every=16", "evaluation=heldout")
    weighted = "training.select_by={nli_dev/spearman: 1, toy_dev/spearman: 3}"
    assert (
        embedrun(
            "train",
            *mixture(NLI, TOY.replace("sbert", "angle_toy"), FAQ),
            *steps,
            weighted,
            "hydra.run.dir=run",
        ).code
        == 0
    )
    run = Path("run")
    found = metrics(run)
    each = {name: len(found[f"train {name}"]) for name in ("nli/loss", "toy/loss", "faq/loss", "loss")}
    assert each == {"nli/loss": 8, "toy/loss": 4, "faq/loss": 4, "loss": 16}
    assert "train toy/gradient_share/angle" in found
    assert "train faq/active/cosent" in found
    by_part = [found[f"dev {name}_dev/spearman"] for name in ("nli", "toy")]
    assert found["dev weighted_dev/score"] == pytest.approx(
        [(a + 3 * b) / 4 for a, b in zip(*by_part, strict=True)][1:]
    )
    results = json.loads((run / "results.json").read_text())
    assert results["notes"]["selected_by"] == "weighted_dev/score"
    scores, counts = results["scores"], results["counts"]
    assert scores["mix_test/spearman"] == pytest.approx(
        (scores["nli_test/spearman"] + scores["toy_test/spearman"]) / 2
    )
    assert [counts[key] for key in ("train_rows", "train_rows/nli", "train_rows/faq")] == [176, 96, 16]
    assert set(json.loads((run / "contamination.json").read_text())["parts"]) == {"nli", "toy", "faq"}
    speed = [json.loads(line) for line in (run / "speed.jsonl").read_text().splitlines()]
    assert {part for line in speed for part in line["parts"]} == {"nli", "toy", "faq"}
    assert "loss of faq" in (run / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("faq")
def test_a_mixture_that_is_killed_ends_as_one_that_was_not(embedrun):
    here = Path.cwd()
    commands = Commands(here)
    # Terms with weights of their own are of one part, and a step has batches of several.
    options = (
        *mixture(NLI, TOY, FAQ),
        "training.accumulate=2",
        "training.micro_batch_size=3",
        "evaluation=none",
    )
    arguments = ("train", *options, "training.max_steps=16", "training.evaluate_every=2")
    assert embedrun(*arguments, "hydra.run.dir=whole").code == 0
    running = commands.start(*arguments, "hydra.run.dir=killed")
    running.reach_checkpoint("killed")
    running.process.kill()
    running.end()
    assert embedrun("resume", "killed").code == 0
    assert same_run.differences(here / "killed", same_run.content(here / "whole")) == []


@pytest.mark.slow
@pytest.mark.realdata
def test_subsets_of_a_data_set_are_no_parts(embedrun):
    short = ("dataset=stsb", "loss=cosent", *TINY, "training.max_steps=2", "evaluation=stsb")
    assert embedrun("train", *short, "hydra.run.dir=run").code == 0
    results = json.loads(Path("run/results.json").read_text())
    assert results["notes"]["selected_by"] == "stsb_dev/spearman"
    dev = [key for key in results["scores"] if "_dev/" in key]
    assert dev == ["stsb_dev/spearman", "stsb_dev/spearman_clean"]


@pytest.mark.slow
@pytest.mark.usefixtures("faq")
def test_two_processes_train_what_one_does():
    commands = Commands(Path.cwd())
    options = (
        "train",
        *mixture(NLI, TOY, FAQ),
        "training.seeded_dropout=true",
        "training.max_steps=20",
        "evaluation=none",
    )
    commands.done(*options, "hydra.run.dir=one")
    commands.done(*options, "gpu.processes=2", "hydra.run.dir=two")
    same_run.same_weights(Path("two"), Path("one"))


def problems(*overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        plan_train(composed(Request("train", overrides)).config)
    return caught.value.problems


def test_what_is_wrong_with_parts_is_said_of_each_and_together():
    bad = "bad: {dataset: toy, los: angle, share: -1, evaluation: tests}"
    found = problems(*mixture(bad, NLI.replace("simcse_supervised", "mse"), "2x: {dataset: stsb}"))
    assert any(text.startswith("dataset.parts.bad.los: Toy has no such option") for text in found)
    assert any("dataset.parts.bad.evaluation: expected one of all, dev, test, none" in text for text in found)
    assert any(text.startswith("dataset.parts.2x: not a name for a part") for text in found)
    (lacking,) = problems(*mixture(NLI.replace("simcse_supervised", "mse"), TOY))
    assert lacking.startswith(
        "dataset.parts.nli.loss.terms.mse: needs score, which dataset=toy does not give"
    )
    (share,) = problems(*mixture(NLI.replace("0.5", "0"), TOY))
    assert share.startswith(
        "dataset.parts.nli.share: must be a number above 0, got 0; dataset.parts.nli=null leaves"
    )
    assert problems("dataset=mix", *TINY)[0].startswith("dataset: Mix: no parts; give dataset.parts.NAME=")
    (word,) = problems(*mixture("nli: toy_triplet", TOY))
    assert word.startswith(
        "dataset.parts.nli: expected a data set and a loss, as {dataset: stsb, loss: angle}"
    )
    mixed = problems(*mixture(NLI, TOY), "dataset.batches=mixed", "training.distinct_texts=true")
    assert [text.partition(":")[0] for text in mixed] == [
        "dataset.parts.toy.loss", "dataset.batches", "training.distinct_texts",
    ]  # fmt: skip


def test_a_part_can_be_left_out_and_its_share_swept_and_a_loss_is_that_of_the_run_where_it_names_none():
    parts = mixture(NLI, "toy: {dataset: toy, share: 0.5}")
    one = plan_train(composed(Request("train", (*parts, "loss=cosent", "dataset.parts.nli=null"))).config)
    assert list(one.losses) == ["toy"]
    assert list(one.losses["toy"].terms) == ["cosent"]
    config = composed(Request("train", (*parts, "dataset.parts.nli.share=0.3"))).config
    assert config["dataset"]["parts"]["nli"]["share"] == 0.3
    with pytest.raises(ConfigError, match="every part of the mixture has a loss of its own"):
        composed(Request("train", (*mixture(NLI, TOY), "loss=cosent")))


def test_a_file_of_options_holds_a_mixture_and_is_written_as_one(embedrun):
    Path("my.yaml").write_text(
        "dataset:\n  name: mix\n  parts:\n"
        "    nli: {dataset: toy_triplet, train_rows: 96, loss: simcse_supervised, share: 0.6}\n"
        "    toy: {dataset: toy, train_rows: 64, loss: angle_toy, share: 0.4}\n"
        "backbone: tiny\ntraining: {batch_size: 8, max_steps: 5}\nevaluation: none\n"
    )
    shown = embedrun("check", "my.yaml").out
    assert "part nli" in shown
    assert "96 rows, 60.0 % of the batches: 3 in 5 steps, 0.25 epochs of its own" in shown
    assert embedrun("train", "my.yaml", "--write", "written.yaml").code == 0
    assert "96 rows, 60.0 % of the batches" in embedrun("check", "written.yaml").out
