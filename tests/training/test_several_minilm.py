"""Real weights and real text: several gloo processes train what one does; `make test-slow` runs it."""

import csv
import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from minilm import minilm_folder
from safetensors.numpy import load_file
from training_commands import Commands

pytestmark = [pytest.mark.slow, pytest.mark.realdata, pytest.mark.usefixtures("_alone", "_quick_plots")]
ROWS, DEV_ROWS, STEPS = 400, 32, 20
# Dropout follows a seed of each text and view, so that it is the same wherever the text is encoded.
SHARED = (
    f"training.max_steps={STEPS}",
    "training.epochs=100",
    "training.batch_size=17",  # shares of 9 and 8 rows, and of 6, 6 and 5
    "training.lr=5e-5",
    "training.evaluate_every=null",
    "training.seeded_dropout=true",
    "backbone.max_length=32",
    "evaluation=none",
    "gpu=cpu",
)
PAIRS = ("dataset=pairs", "dataset.path=pairs.csv", "dataset.dev=dev.csv")
MIXES = {
    "angle": ("loss=angle", *PAIRS, "loss.terms.in_batch_negatives.positive_from=4"),
    "arccse": (
        "loss=arccse", "dataset=texts", "dataset.path=texts.csv", "dataset.dev=dev.csv",
        "dataset.masking={least_words: 10}", "pooling=cls", "training.optimizer=sam",
    ),
    "raoe": ("loss=raoe", *PAIRS, "dataset.columns={text1: text1, text2: text2, score: score, label: label}"),
}  # fmt: skip


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands in a folder with pairs of STS-B and sentences of Wikipedia."""
    folder, store = tmp_path_factory.mktemp("minilm"), Path(os.environ["EMBEDRUN_DATA"])
    pairs = [line.split("\t") for line in _lines(store / "stsb" / "train.tsv.gz")][1:]
    dev = [line.split("\t") for line in _lines(store / "stsb" / "dev.tsv.gz")][1:]
    head = ["text1", "text2", "score", "label"]
    _write(folder / "pairs.csv", head, [_labelled(row) for row in pairs[: ROWS * 5 : 5]])
    _write(folder / "dev.csv", head, [_labelled(row) for row in dev[: DEV_ROWS * 5 : 5]])
    sentences = list(dict.fromkeys(_lines(store / "wiki" / "simcse_wiki1m_head.txt.gz")))
    _write(
        folder / "texts.csv", ["text"], [[text] for text in sentences if 5 < len(text.split()) < 25][:ROWS]
    )
    found = Commands(folder)
    yield found
    found.kill()


@pytest.mark.parametrize("mix", MIXES)
def test_several_processes_train_what_one_does(mix: str, commands: Commands):
    for size in (1, 2, 3):
        own = (
            "backbone=minilm",
            f"backbone.name={minilm_folder()}",
            f"gpu.processes={size}",
            f"hydra.run.dir={mix}{size}",
        )
        commands.done("train", *MIXES[mix], *SHARED, *own)
    before = weights(minilm_folder())
    alone = weights(commands.folder / f"{mix}1" / "model")
    moved = distance(alone, before, list(before))
    assert moved > 1e-4, "nothing was learnt, so that nothing is compared"
    for size in (2, 3):
        found = weights(commands.folder / f"{mix}{size}" / "model")
        assert distance(found, alone, list(alone)) <= 1e-5
        # Against what training changed, too, which is the smaller by far.
        assert distance(found, alone, list(before)) <= 1e-3 * moved


def weights(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


def distance(one: dict[str, np.ndarray], other: dict[str, np.ndarray], names: list[str]) -> float:
    """Between all weights as one vector each, relative to the length of the other."""
    shared = [name for name in names if name in one and name in other]
    gaps = [np.linalg.norm(one[name].astype(np.float64) - other[name]) for name in shared]
    return float(np.linalg.norm(gaps) / np.linalg.norm([np.linalg.norm(other[name]) for name in shared]))


def _labelled(row: list[str]) -> list[str]:
    """Pair, score and, by that score, an NLI class of a row: genre, subset, year, id, score, pair."""
    score = float(row[4])
    return [row[5], row[6], row[4], str(0 if score >= 4 else 2 if score <= 1.5 else 1)]


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()


def _write(path: Path, head: list[str], rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
