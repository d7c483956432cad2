"""`embedrun check`: what a run would do, and what it would cost."""

import json
import re
from pathlib import Path

import pytest

from embedrun.config import presets
from embedrun.console import size

QUICK = "+experiment=quickstart"


pytestmark = pytest.mark.usefixtures("_no_timing")


def test_a_valid_configuration_is_priced_and_nothing_is_written(embedrun):
    checked = embedrun(
        "check",
        QUICK,
        "training.batch_size=16",
        "training.accumulate=4",
        "training.micro_batch_size=8",
        "loss=cosent",
    )
    assert (checked.code, checked.err) == (0, "")
    lines = [" ".join(line.split()) for line in checked.out.splitlines()]
    for line in (
        "experiment quickstart",
        "loss 1 cosent",
        "cosent up to 120 pairs of rows, those of unequal score",
        "optimizer steps 562, 5.99 epochs of 6,000 rows",  # 375 batches of 16 an epoch, 4 a step
        "dev scores 4, after the one before training",  # steps 187, 374, 561 and the last
        "data set toy (pair: left, right)",
        "selected by toy dev, every 187 steps and at the end",
        "evaluation heldout",
        "rows a step 64 (4 x 16)",
        "rows a loss compares 16",
        "rows encoded at a time 8",
        "passes through the encoder left, right",
        "teachers none",
        "also in the training data: no dev or test row",
        "also in the dev data: no test row",
        "the configuration is valid",
    ):
        assert line in lines
    assert not list(Path.cwd().iterdir())


def test_it_needs_neither_the_model_nor_the_data_and_says_at_the_end_that_train_would(embedrun):
    checked = embedrun("check", "experiment=angle_bert")
    end = checked.out.splitlines()[-1]
    assert checked.code == 3
    assert end.startswith(
        "the configuration is valid, but would not start here: nli/snli_train_sample.jsonl.gz"
    )
    assert "set EMBEDRUN_DATA=DIR" in end
    assert "model 'google-bert/bert-base-uncased': no run or folder here has this name" in end
    assert "google-bert/bert-base-uncased" in checked.out
    assert "contamination: not known without the data\n" in checked.out
    assert "positives" not in checked.out


def test_pairs_that_training_and_tests_share_are_counted_where_the_data_is_there(embedrun):
    Path("train.csv").write_text("text1,text2,score\na,b,1\nc,d,2\n", encoding="utf-8")
    Path("test.csv").write_text("text1,text2,score\nB,a!,1\ne,f,2\ng,h,0\n", encoding="utf-8")
    files = ("dataset.path=train.csv", "dataset.dev=train.csv", "dataset.test=test.csv")
    checked = embedrun("check", QUICK, "dataset=pairs", "loss=cosent", *files)
    assert (checked.code, checked.err) == (0, "")
    lines = checked.out.splitlines()
    shared = "33.3 % of the test pairs of pairs (1 of 3)"
    assert f"also in the training data: {shared}; 100.0 % of the dev pairs of pairs (2 of 2)" in lines
    assert f"also in the dev data: {shared}" in lines


@pytest.mark.slow
def test_every_experiment_is_valid(embedrun):
    for name in presets.groups()["experiment"]:
        if not name.startswith("sweep_"):  # tests/test_sweep_presets.py
            lines(embedrun("check", f"experiment={name}"))


def test_faults_are_reported_as_train_reports_them(refused):
    faults = (QUICK, "training.lr=-1", "training.lrr=1", "gpu.device=cdua")
    said = refused("check", *faults)
    assert "config has 3 problems" in said
    assert said == refused("train", *faults)


def lines(checked) -> list[str]:
    assert checked.code in (0, 3), checked.err  # 3: valid, and a model or data is not here
    assert "the configuration is valid" in checked.out.splitlines()[-1]
    return [" ".join(line.split()) for line in checked.out.splitlines()]


def test_tokens_and_time_are_estimated_and_say_from_what(embedrun):
    found = lines(embedrun("check", QUICK, "training.max_steps=10"))
    assert "optimizer steps 10, 0.0535 epochs of 6,000 rows" in found
    (tokens,) = [line for line in found if line.startswith("tokens about ")]
    assert tokens.endswith("a row in all passes, padding not counted,")
    assert "estimated at 1.3 a word, without a tokenizer, in 512 of the rows" in found
    assert any(re.match("time, estimated about .+ to .+ for the steps and", line) for line in found)
    assert "at 1.00e09 operations a second, as a matrix product in fp32 does now, or half of it" in found


def test_what_the_paper_leaves_open_is_said_of_the_experiment_and_of_those_below_it(embedrun, own):
    folder = own("experiment/mine.yaml", "# @package _global_\n# open: lr 1.\ndefaults: [arccse_sbert]\n")
    out = embedrun("check", "experiment=mine", "--config-dir", folder).out
    assert "left open by the paper, and chosen in mine:\n  - lr 1.\n" in out
    assert "chosen in arccse_sbert, which it builds on:\n  - The paper does not name the checkpoint" in out
    assert '  - "update the parameters every 64 steps": gradients of 64 batches' in out


def test_the_faults_of_every_job_of_a_sweep_are_reported_together(refused):
    said = refused("check", "-m", QUICK, "training.lr=-1,1e-3,-2")
    assert "job 0: training.lr: must be above 0, got -1" in said
    assert "job 2: training.lr: must be above 0, got -2" in said
    assert "job 1" not in said


SHAPE = {"vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}


@pytest.fixture
def price(embedrun):
    """The rows that `check` prints of a backbone, by their first column."""

    def run(*overrides: str) -> dict[str, str]:
        checked = embedrun("check", "+experiment=quickstart", "gpu=auto", *overrides)
        assert checked.code in (0, 3), checked.err
        lines = [line.split("  ", 1) for line in checked.out.splitlines() if "  " in line]
        return {name.strip(): text.strip() for name, text in lines}

    return run


@pytest.fixture
def llama() -> Path:
    """A folder with a Llama of which only `config.json` is here."""
    folder = Path("llama")
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"model_type": "llama", **SHAPE, "num_attention_heads": 2, "max_position_embeddings": 20})
    )
    return folder


def of_folder(folder: Path) -> tuple[str, ...]:
    return ("backbone=bert_base", f"backbone.name={folder}", "pooling=mean")


UNSEEN = ("dataset.train_rows=100000", "training.batch_size=8", "gpu=cpu")  # rows whose length nobody knows
# 100 x 16 and a norm; two layers of 4 x 16 x 16 + 3 x 16 x 24 and two norms.
WEIGHTS = 100 * 16 + 16 + 2 * (4 * 256 + 3 * 384 + 2 * 16)


def test_a_configuration_without_weights_is_enough(price, llama):
    found = price(*of_folder(llama), *UNSEEN)
    assert found["parameters"] == f"{WEIGHTS:,}"
    assert found["trainable parameters"] == f"{WEIGHTS:,}"
    # 16 texts of 20 tokens, 2 layers, 4 (10 x 16 + 4 x 24) bytes; 12 bytes a weight.
    assert 16 * 20 * 2 * 4 * 256 == 655_360
    assert found["memory, estimated"].startswith(
        f"{size(655_360 + 12 * WEIGHTS)}: weights {size(4 * WEIGHTS)} + "
    )
    assert found["memory, estimated"].endswith("activations 640.0 KiB")


def test_a_teacher_weighs_four_bytes_a_weight(price, embedrun, llama):
    # BERT-base has 109,482,240 weights, 417.6 MiB; all else is 0.6 MiB.
    teachers = "training.teachers=[{name: google-bert/bert-base-uncased}, {name: someone/else}]"
    options = (*of_folder(llama), "training.batch_size=8", "gpu=cpu", "loss=mse_teacher", teachers)
    found = price(*options)
    assert found["memory, estimated"].startswith("418.2 MiB: ")
    assert found["memory, estimated"].endswith(" + teachers 417.6 MiB")
    assert found["time, estimated"].endswith("for scoring, teachers not counted")
    printed = embedrun("check", "+experiment=quickstart", *options).out
    assert "without that of someone/else, whose size is not known here\n" in printed


def test_a_model_from_nothing_is_priced_by_its_shape(price):
    # 4,000 word pieces at most, 64 positions, 2 types.
    shape = ("backbone.scratch.positions=64", "backbone.scratch.layers=1", "backbone.scratch.width=8")
    layer = 4 * 72 + (8 * 32 + 32) + (32 * 8 + 8) + 4 * 8
    assert price(*shape)["parameters"] == f"{(4000 + 64 + 2 + 2) * 8 + layer + 72:,}, at most"
    assert price("backbone=ran_tiny")["parameters"].endswith(", at most")


def test_what_this_machine_lacks_is_said_and_the_configuration_is_valid_all_the_same(embedrun, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    checked = embedrun("check", "+experiment=angle_llama")
    end = checked.out.splitlines()[-1]
    assert "the configuration is valid, but would not start here; start it on a machine that has what" in end
    assert "; backbone.adapter.quantize: nf4 needs a CUDA device" in end
    assert "79,953,920" in checked.out  # 32 layers x 32 x (4 x 8,192 + 3 x 15,104)
