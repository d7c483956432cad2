"""Frozen encoders whose vectors are targets of the losses."""

from collections.abc import Sequence

import torch
from torch import Tensor

from embedrun.console import Progress
from embedrun.encoder import Encoder


class Teachers:
    """Vectors of the training texts from frozen encoders, in float32 and without dropout.

    Args:
        encoders: on their device; they are frozen here.
        texts: the distinct training texts.
        in_memory: compute all vectors now and keep them, 4 bytes x texts x teachers x widest; else each
            batch's when it is asked for.

    Attributes:
        dims: length of each teacher's vectors.
    """

    def __init__(self, encoders: Sequence[Encoder], texts: list[str], *, in_memory: bool) -> None:
        self._encoders = [encoder.eval().requires_grad_(False) for encoder in encoders]
        self._texts = texts
        self.dims = tuple(encoder.dim for encoder in encoders)
        self._stored = self._encode(texts, show=True) if in_memory and encoders else None

    def vectors(self, index: Tensor) -> Tensor:
        """The teachers' vectors of some texts, ``(texts, teachers, widest)``, on the CPU.

        Behind the vector of a teacher that is narrower than the widest stand zeros, which change no cosine.

        Args:
            index: int64, ``(texts,)``, places among all training texts.
        """
        if self._stored is not None:
            return self._stored[index]
        return self._encode([self._texts[place] for place in index.tolist()], show=False)

    def _encode(self, texts: list[str], *, show: bool) -> Tensor:
        found = torch.zeros(
            len(texts), len(self.dims), max(self.dims, default=0)
        )  # (texts, teachers, widest)
        for place, encoder in enumerate(self._encoders):
            if show:
                with Progress("teacher", len(texts), "texts") as bar:
                    part = encoder.encode(texts, progress=lambda done, total, bar=bar: bar.reach(done))
            else:
                part = encoder.encode(texts)
            found[:, place, : encoder.dim] = torch.from_numpy(part)
        return found
