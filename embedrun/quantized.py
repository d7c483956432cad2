"""Vectors in fewer bytes: numbers of 16, 8 or 1 bits, as sentence-transformers stores them."""

from typing import Literal, get_args

import numpy as np

Dtype = Literal["float32", "float16", "int8", "binary"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


def ranges_of(vectors: np.ndarray) -> np.ndarray:
    """The smallest and the largest number of each dimension, ``(2, dim)``: the calibration of `int8`."""
    return np.stack([vectors.min(axis=0), vectors.max(axis=0)])


def stored(vectors: np.ndarray, dtype: Dtype, ranges: np.ndarray | None = None) -> np.ndarray:
    r"""Vectors, float32, ``(texts, dim)``, as they are stored.

    `int8` has :math:`\lfloor 255 (v - a) / (b - a) \rfloor - 128` with the `ranges` *a* and *b* of its
    dimension, clipped, those of the vectors themselves where none are given. `binary` has a bit a dimension,
    1 above 0, eight in an int8, less 128; its columns are ``dim / 8``.
    """
    if dtype == "binary":
        return (np.packbits(vectors > 0, axis=1).astype(np.int16) - 128).astype(np.int8)
    if dtype == "int8":
        low, high = (ranges_of(vectors) if ranges is None else ranges).astype(np.float32)  # (dim,) each
        step = np.where(high > low, (high - low) / 255, 1)  # (dim,)
        return (np.clip(np.floor((vectors - low) / step), 0, 255) - 128).astype(np.int8)
    return vectors.astype(dtype)


def compared(vectors: np.ndarray, dtype: Dtype, ranges: np.ndarray | None = None) -> np.ndarray:
    """Stored vectors as a search compares them, float32, ``(texts, dim)``.

    The cosine of `int8` is that of its whole numbers. Bits are 1 and -1, so that the cosine orders texts as
    the number of equal bits does.
    """
    if dtype == "binary":
        return np.where(vectors > 0, 1, -1).astype(np.float32)
    return stored(vectors, dtype, ranges).astype(np.float32)
