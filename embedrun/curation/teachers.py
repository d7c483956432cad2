"""What scores a pair: the teachers, their settings, the cosines of a block."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from embedrun import backbone
from embedrun.backbone.files import commit_of
from embedrun.config import AnnotatorConfig, BackboneConfig, PoolingConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.data import digest
from embedrun.files import Plain, expanded
from embedrun.rows import Rows

Encode = Callable[[list[str]], np.ndarray]  # texts -> (texts, dim), float32

DECIMALS = 7  # a cosine of float32 vectors carries no more
_PLACE = "{text}"
_SHOWN = 60  # characters of a text in a message


def prompt_problem(prompt: str | None) -> str | None:
    """Why this is not a valid prompt, or None."""
    others = [name for name in re.findall(r"\{\w*\}", prompt or "") if name != _PLACE]
    if others:
        return f"{others[0]} stands for nothing; write {_PLACE} where the text goes, or a prefix without it"
    return None


def prompted(texts: Sequence[str], prompt: str | None) -> list[str]:
    """The texts as a teacher reads them; `prompt` is a template with `{text}`, a prefix or None."""
    template = prompt if prompt and _PLACE in prompt else (prompt or "") + _PLACE
    return [template.replace(_PLACE, text) for text in texts]


def similarities(lefts: Sequence[str], rights: Sequence[str], teachers: Sequence[Encode]) -> np.ndarray:
    """The cosine of the two texts of each pair by each teacher, float64, ``(rows, teachers)``.

    Each teacher gets the distinct texts of the block once, shortest first and then by their characters:
    what it sees depends on the block alone, so that any sharding and any restart gives the same numbers.
    """
    texts = sorted({*lefts, *rights}, key=lambda text: (len(text), text))
    place = {text: index for index, text in enumerate(texts)}
    left, right = (np.array([place[text] for text in side]) for side in (lefts, rights))  # (rows,) each
    cosines = np.empty((len(left), len(teachers)))  # (rows, teachers)
    for column, encode in enumerate(teachers):
        vectors = encode(texts)  # (texts, dim)
        check_finite(vectors, texts, column)
        lengths = np.sqrt(np.einsum("td,td->t", vectors, vectors, dtype=np.float64))  # (texts,)
        products = np.einsum("rd,rd->r", vectors[left], vectors[right], dtype=np.float64)  # (rows,)
        scale = lengths[left] * lengths[right]  # (rows,), 0 with a zero vector, whose cosine is 0
        cosines[:, column] = products / np.where(scale > 0, scale, 1.0)
    return cosines


def average(cosines: np.ndarray) -> np.ndarray:
    r"""The score of each pair: the mean of its teachers' cosines, from ``(rows, teachers)`` to ``(rows,)``.

    .. math:: S = \frac{S_1 + S_2}{2}

    Source: RAOE, Eq. 4, for its two teachers; here for any number. Neither rescaled nor clipped to [0, 1],
    which the paper gives as the range: a cosine can be negative, and the objectives use the order alone.
    """
    return cosines.mean(1)


def check_finite(vectors: np.ndarray, texts: Sequence[str], column: int) -> None:
    """Refuse vectors, ``(texts, dim)``, of teacher number `column` that are not finite (DataError)."""
    finite = np.isfinite(vectors).all(axis=1)  # (texts,)
    if finite.all():
        return
    text = texts[int(finite.argmin())][:_SHOWN]
    raise DataError(
        f"teachers[{column}]: {int((~finite).sum())} of its {len(texts)} vectors are not finite, "
        f"first that of {text!r}; its weights may be damaged, name another"
    )


def settings_of(rows: Rows, block_rows: int, teachers: Sequence[Plain]) -> Plain:
    """What decides the scores of an annotation, and nothing else: no shard, no folder, no machine.

    Scores that the rows may have already are ignored; `teachers` are as `identity` makes them.
    """
    bare = replace(rows, targets={"label": rows.targets["label"]}, subset=[], kept=None)
    facts = {"name": rows.name, "split": rows.split, "count": len(rows), "sha256": bare.fingerprint()}
    return {"schema": 1, "rows": facts, "block_rows": block_rows, "teachers": list(teachers)}


def located(teachers: Sequence[AnnotatorConfig]) -> tuple[list[Path], list[str]]:
    """The model folder of each teacher, and why one has none; a ConfigError for a revision of a folder."""
    folders, problems = [], []
    for index, teacher in enumerate(teachers):
        try:
            folders.append(backbone.locate(teacher.name, teacher.revision))
        except DataError as fault:
            problems += [f"teachers[{index}]: {problem}" for problem in fault.problems]
    return folders, problems


def identity(teacher: AnnotatorConfig, folder: Path) -> Plain:
    """What identifies an encoder, equal on every machine; `folder` has its files."""
    commit, local = commit_of(folder), expanded(teacher.name).exists()
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
    """The encoders, on their device."""
    encoders = []
    for index, teacher in enumerate(teachers):
        model = BackboneConfig(name=teacher.name, revision=teacher.revision, max_length=teacher.max_length)
        try:
            # No weight that a vector depends on is drawn from the seed.
            encoder = Encoder.build(model, PoolingConfig(name=teacher.pooling), seed=0)
        except (ConfigError, DataError) as fault:
            raise type(fault)([f"teachers[{index}]: {problem}" for problem in fault.problems]) from fault
        if teacher.prompt is not None:  # in place of the one that its files name
            encoder.use(None)
        encoders.append(encoder.to(device).eval())
    return encoders
