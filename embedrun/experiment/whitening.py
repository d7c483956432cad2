"""Whitening: a linear map behind the pooling, fitted on texts, in place of training."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from embedrun.config import WhitenConfig
from embedrun.console import Progress
from embedrun.dataset import named
from embedrun.encoder import Encoder
from embedrun.errors import DataError
from embedrun.files import whole_folder
from embedrun.pooling import Dense
from embedrun.rows import Rows
from embedrun.runs import sums
from embedrun.store import Store


def whitening(vectors: np.ndarray, dims: int | None) -> Dense:
    r"""The map that gives vectors, ``(texts, dim)``, the mean 0 and the covariance 1, in `dims` numbers.

    .. math:: x \mapsto (x - \mu) W, \quad W = (U \Lambda^{-1/2})_{:,1:k}

    with :math:`U \Lambda U^\top` their covariance, the eigenvalues falling. Source: Su et al. 2021,
    "Whitening Sentence Representations for Better Semantics and Faster Retrieval", arXiv:2103.15316,
    Algorithm 1. Departure: directions with less than 1e-9 of the first eigenvalue, in which the vectors do
    not differ, are left out, where the paper divides by about 0.

    Args:
        vectors: before any scaling to length 1.
        dims: numbers that are kept, the directions of most variance; None: all.

    Raises:
        DataError: if the vectors differ in fewer directions than `dims`.
    """
    wide = vectors.astype(np.float64)
    mean = wide.mean(axis=0)  # (dim,)
    values, turned = np.linalg.eigh(np.cov(wide.T, bias=True))  # rising (dim,), (dim, dim)
    values, turned = values[::-1], turned[:, ::-1]
    usable = int((values > 1e-9 * values[0]).sum())
    if (dims or 1) > usable:
        raise DataError(
            f"whiten.dims: {dims} asked for, and the vectors differ in {usable} directions; lower it"
        )
    kept = slice(dims or usable)
    weight = (turned[:, kept] / np.sqrt(values[kept])).T  # (dims, dim)
    linear = nn.Linear(wide.shape[1], len(weight))
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(weight.copy()))
        assert linear.bias is not None
        linear.bias.copy_(torch.from_numpy(-weight @ mean))
    return Dense(linear, "Identity")


def fitted_on(config: WhitenConfig | None, store: Store) -> list[Rows]:
    """The rows whose texts a whitening is fitted on; none without one."""
    if config is None:
        return []
    source = named.data_split(config.dataset, "train")
    if problems := named.unreadable([source], store):
        raise DataError(problems)
    dataset, split = source
    return [dataset.read(split, store)]


def whiten(encoder: Encoder, rows: Sequence[Rows], config: WhitenConfig | None, folder: Path) -> None:
    """Put the whitening of the vectors of these rows' texts behind an encoder, in place, and save that."""
    if config is None:
        return
    texts = list(dict.fromkeys(text for some in rows for text in some.sentences()))
    with Progress("whiten", len(texts), "texts") as bar:
        vectors = encoder.encode(texts, scaled=False, progress=lambda done, _: bar.reach(done))
    encoder.add(whitening(vectors, config.dims).to(encoder.backbone.device))
    with whole_folder(folder) as aside:
        encoder.save(aside)
        sums.write(aside)
