"""All processes of a run encode what the first has to score."""

import contextlib
import json
from collections.abc import Callable, Iterator

import numpy as np
import torch

from embedrun import signals
from embedrun.encoder import Encoder
from embedrun.training.processes import LostContact, Processes
from embedrun.training.shards import gathered

_FEW = 64  # texts that are not worth dividing


class _Stopped(Exception):  # noqa: N818 - no error
    """A signal has come; it is handled once all processes know."""


class Together:
    """Divides the texts that the first process encodes among all; the others serve it.

    Texts are dealt out by length, so that each process has about as many tokens, and every vector is what one
    process computes but for rounding. With one process nothing changes.
    """

    def __init__(self, encoder: Encoder, processes: Processes) -> None:
        self._encoder, self._processes = encoder, processes

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """In the first process: inside, the encoder divides its work; at the end the others are dismissed."""
        if self._processes.size == 1:
            yield
            return
        self._encoder.divide = self._encode
        failed = True
        try:
            with gathered(self._encoder):
                yield
            failed = False
        finally:
            self._encoder.divide = None
            # One that is gone is reported by its own end; the failure here is the one to tell.
            with signals.held(), contextlib.suppress(*([LostContact] if failed else [])):
                self._processes.send(b"")

    def serve(self) -> None:
        """In the other processes: encode their shares until the first dismisses them."""
        if self._processes.size == 1:
            return
        with signals.held(), gathered(self._encoder):
            while message := self._processes.send(b""):
                asked = json.loads(message)
                self._share(asked.pop("texts"), asked, lambda *_: None)

    def _encode(
        self, texts: list[str], progress: Callable[[int, int], None] | None, **options: object
    ) -> np.ndarray | None:
        """Vectors of distinct texts, ``(texts, dim)``; None for so few that one process is as quick."""
        if len(texts) < _FEW * self._processes.size:
            return None
        with signals.held() as waiting:
            self._processes.send(json.dumps({"texts": texts, **options}).encode())

            def watch(done: int, of: int) -> None:
                if waiting:
                    raise _Stopped
                if progress is not None:
                    progress(done * len(texts) // of, len(texts))

            vectors = self._share(texts, options, watch)
        # A signal that has come meanwhile is raised at the end of the block.
        assert vectors is not None
        return vectors

    def _share(self, texts: list[str], options: dict, watch: Callable[[int, int], None]) -> np.ndarray | None:
        """Encode the own share, and gather all; None where the first process was stopped."""
        size, rank = self._processes.size, self._processes.rank
        by_length = np.argsort([len(text) for text in texts], kind="stable")  # (texts,)
        shares = [by_length[first::size] for first in range(size)]  # (share,) each
        stopped, found = False, np.empty((0, self._encoder.dim), dtype=np.float32)
        divide, self._encoder.divide = self._encoder.divide, None
        try:
            found = self._encoder.encode([texts[place] for place in shares[rank]], progress=watch, **options)
        except _Stopped:
            stopped = True
        finally:
            self._encoder.divide = divide
        if self._processes.share([float(stopped)])[0]:
            return None
        parts = self._processes.gather({"vectors": torch.from_numpy(found)}, len(texts))
        vectors = np.empty((len(texts), self._encoder.dim), dtype=np.float32)  # (texts, dim)
        vectors[np.concatenate(shares)] = parts["vectors"].numpy()
        return vectors
