"""The teachers of an annotation: which they are, and how they encode."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedrun import backbone
from embedrun.backbone.files import commit_of
from embedrun.config import AnnotatorConfig, BackboneConfig, PoolingConfig
from embedrun.dataset.annotation import Encode, prompted
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.data import digest


def located(teachers: Sequence[AnnotatorConfig]) -> tuple[list[Path], list[str]]:
    """The model folder of each teacher, and why any has none.

    Raises:
        ConfigError: for a revision of a local folder.
    """
    folders, problems = [], []
    for index, teacher in enumerate(teachers):
        try:
            folders.append(backbone.locate(teacher.name, teacher.revision))
        except DataError as fault:
            problems += [f"teachers[{index}]: {problem}" for problem in fault.problems]
        except ConfigError as fault:
            raise ConfigError([f"teachers[{index}]: {problem}" for problem in fault.problems]) from None
    return folders, problems


def identity(teacher: AnnotatorConfig, folder: Path) -> dict[str, Any]:
    """Which encoder this is, in the same words on every machine.

    Args:
        teacher: as configured.
        folder: of its files.

    Returns:
        `name` (of a local model the folder's alone), `revision` as asked for, `commit` of a hub model or else
        `sha256` of the model's files, `pooling`, `max_length` and `prompt`.
    """
    commit = commit_of(folder)
    local = Path(teacher.name).expanduser().exists()
    return {
        "name": Path(teacher.name).resolve().name if local else teacher.name,
        "revision": teacher.revision,
        "commit": commit,
        "sha256": digest(folder) if commit is None else None,
        "pooling": teacher.pooling,
        "max_length": teacher.max_length,
        "prompt": teacher.prompt,
    }


def load(teachers: Sequence[AnnotatorConfig], device: torch.device) -> list[Encoder]:
    """The encoders, on their device.

    Raises:
        ConfigError: if a teacher's options do not fit its model.
        DataError: if a model cannot be read.
    """
    encoders = []
    for index, teacher in enumerate(teachers):
        wanted = BackboneConfig(name=teacher.name, revision=teacher.revision, max_length=teacher.max_length)
        try:
            # No weight that a vector depends on is drawn from the seed.
            encoder = Encoder.build(wanted, PoolingConfig(name=teacher.pooling), seed=0)
            if teacher.prompt is not None:  # in place of the one that its files say
                encoder.use(None)
        except (ConfigError, DataError) as fault:
            raise type(fault)([f"teachers[{index}]: {problem}" for problem in fault.problems]) from fault
        encoders.append(encoder.to(device).eval())
    return encoders


def encoding(
    encoder: Encoder, prompt: str | None, batch_tokens: int, progress: Callable[[float], None]
) -> Encode:
    """The encoder as the annotation sees it.

    Args:
        encoder: loaded.
        prompt: template or prefix, or None.
        batch_tokens: padded tokens of a forward pass, at most.
        progress: called with the share of the texts that are done, from 0 to 1.
    """

    def encode(texts: list[str]) -> np.ndarray:
        return encoder.encode(
            prompted(texts, prompt),
            batch_tokens=batch_tokens,
            progress=lambda done, total: progress(done / total),
        )  # (texts, dim)

    return encode
