"""A small training run for the mix of losses of each paper: seconds of training, and nothing to download."""

import csv
from dataclasses import dataclass
from pathlib import Path

from embedrun.dataset.toy import Toy
from embedrun.rows import Rows

STEPS, EVERY = 200, 10  # optimizer steps of a run; from one dev score and checkpoint to the next
TRAIN_ROWS = 240

_COMMON = (
    "backbone=tiny",
    "backbone.scratch.layers=1",
    "backbone.scratch.width=16",
    "backbone.scratch.vocabulary=400",
    "evaluation=heldout",
    "gpu=cpu",
    "gpu.threads=1",
    "training.epochs=100",
    "training.lr=1e-3",
    # For a job that starts again where it was killed before its run had begun; it changes no result.
    "training.resume=auto",
    "tracking.log_every=1",
    "hydra.run.dir=run",
)


@dataclass(frozen=True)
class Mix:
    """A run to be trained.

    Args:
        name: of the paper that the losses are from.
        options: beside those that all have.
    """

    name: str
    options: tuple[str, ...]

    def training(self, *, steps: int = STEPS, every: int = EVERY) -> tuple[str, ...]:
        """Arguments of `embedrun` for a run in `run` of the current folder."""
        length = (f"training.max_steps={steps}", f"training.evaluate_every={every}")
        return ("train", *_COMMON, *self.options, *length)


def mixes(folder: Path) -> dict[str, Mix]:
    """Write training data into a folder; the mixes that train on it, by name.

    Each has something of its own to bring back: AnglE dropout from torch's random state; ArcCSE masked
    copies, two gradients a step and a layer that only training has; RAOE batches in parts, whose dropout
    follows seeds.
    """
    files = _pair_files(folder)
    options = {
        "AnglE": (
            "loss=angle",
            "dataset=toy",
            f"dataset.train_rows={TRAIN_ROWS}",
            "dataset.dev_rows=40",
            "dataset.test_rows=40",
            "pooling=mean",
            "training.batch_size=16",
        ),
        "ArcCSE": (
            "loss=arccse",
            "dataset=texts",
            f"dataset.path='{_text_file(folder)}'",
            "dataset.masking={least_words: 15}",
            *files[1:],
            "pooling=cls_mlp",
            "training.optimizer=sam",
            "training.batching=length_grouped",
            "training.batch_size=8",
        ),
        "RAOE": (
            "loss=raoe",
            "dataset=pairs",
            *files,
            "dataset.columns={text1: text1, text2: text2, score: score, label: label}",
            "pooling=mean",
            "training.batch_size=16",
            "training.micro_batch_size=8",
        ),
    }
    return {name: Mix(name, own) for name, own in options.items()}


def _pair_files(folder: Path) -> tuple[str, ...]:
    """Write scored and labelled pairs; the options that name the files, training pairs first."""
    toy = Toy(train_rows=TRAIN_ROWS, dev_rows=40, test_rows=40)
    for split in toy.splits:
        _write_csv(toy.read(split), folder / f"{split}.csv")
    names = {"path": "train", "dev": "dev", "test": "test"}
    return tuple(f"dataset.{option}='{folder / split}.csv'" for option, split in names.items())


def _write_csv(rows: Rows, path: Path) -> None:
    columns = [*rows.texts.values(), rows.targets["score"].tolist(), rows.targets["label"].tolist()]
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["text1", "text2", "score", "label"])
        out.writerows(zip(*columns, strict=True))


def _text_file(folder: Path) -> Path:
    """Write texts of two and three sentences each, most of them long enough to be masked."""
    sentences = [*Toy(train_rows=TRAIN_ROWS).read("train").sentences()]  # 2 x TRAIN_ROWS
    texts = [" ".join(sentences[row : row + 2 + row % 2]) for row in range(0, len(sentences) - 2, 2)]
    path = folder / "texts.txt"
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path
