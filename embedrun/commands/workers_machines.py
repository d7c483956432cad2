"""What the machines of one run tell each other while their processes train."""

import contextlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Protocol

from embedrun.commands.workers_end import Verdict
from embedrun.errors import UNEXPECTED

_BEAT = 2.0  # seconds between two signs of life
_PATIENCE = 20.0  # seconds without one after which a machine is lost; its processes then end within 30
_GRACE = 600.0  # seconds to finish a step and save once another machine has stopped
_LINGER = 5.0  # seconds in which the last words are read before the store may go


class Store(Protocol):
    """What is needed of torch's key-value store; a call raises RuntimeError where its machine is gone."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""

    def get(self, key: str) -> bytes:
        """Read a value that is there."""
        ...

    def check(self, keys: list[str]) -> bool:
        """Whether all of these are there."""
        ...


class Machines:
    """The other machines of a run; of its own, this one's launcher knows already.

    Each writes a number that grows and, at its end, a last word into the store at which they met. Only the
    clock of this machine is looked at.

    Args:
        store: of the rendezvous.
        own: number of this machine, from 0.
        count: how many there are.
        clock: seconds that only grow.

    Attributes:
        reason: why the run cannot go on here, where a machine is gone or its processes have died; else None.
    """

    def __init__(
        self, store: Store, own: int, count: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._own, self._count, self._clock = store, own, count, clock
        self._others = [number for number in range(count) if number != own]
        self._beats, self._next = 0, clock()
        self._seen = {number: ("", clock()) for number in self._others}
        self._words: dict[int, Verdict] = {}
        self.reason: str | None = None

    def look(self) -> str | None:
        """Give a sign of life and look for those of the others, every other second; returns `reason`."""
        if self._others and self.reason is None and self._clock() >= self._next:
            self._next = self._clock() + _BEAT
            awaited = [number for number in self._others if not self._has_finished(number)]
            try:
                self._beats += 1
                self._store.set(f"embedrun/beat/{self._own}", str(self._beats))
                self.reason = next(filter(None, map(self._fault, awaited)), None)
            except RuntimeError as fault:
                if awaited:  # else nothing more is to be heard there
                    what = str(fault).partition("\n")[0]
                    self.reason = f"the machine at gpu.rendezvous cannot be reached any more ({what})"
        return self.reason

    def end(self, word: Verdict) -> list[Verdict]:
        """Say the last word of this machine, and wait for those of the others, while all goes well for ever.

        Returns:
            The words of the others; for one that is gone without, that it is.
        """
        if not self._others:
            return []
        with contextlib.suppress(RuntimeError):  # whom it was for is gone with the store
            self._store.set(_word(self._own), json.dumps(asdict(word)))
        until = math.inf if word.kind == "finished" else self._clock() + 2 * _PATIENCE
        while len(self._words) < len(self._others) and self._clock() < until:
            self._next = self._clock()
            if self.look():
                until = min(until, self._clock() + _LINGER)
            time.sleep(_BEAT / 8)
        self._leave()
        words = [self._words[number] for number in sorted(self._words)]
        gone = self.reason is not None and len(words) < len(self._others)
        return [*words, Verdict("lost", self.reason, UNEXPECTED)] if gone else words

    def _leave(self) -> None:
        """Leave as one of the last, because the store may live in this process."""
        until = self._clock() + _LINGER
        with contextlib.suppress(RuntimeError):
            self._store.set(f"embedrun/left/{self._own}", "1")
            while self._clock() < until:
                if self._store.check([f"embedrun/left/{number}" for number in self._others]):
                    return
                time.sleep(_BEAT / 20)

    def _has_finished(self, number: int) -> bool:
        return number in self._words and self._words[number].kind == "finished"

    def _fault(self, number: int) -> str | None:
        """Why this machine cannot go on without that one, or None."""
        if self._store.check([_word(number)]):
            self._words[number] = Verdict(**json.loads(self._store.get(_word(number))))
        word = self._words.get(number)
        if word is not None and word.kind != "stopped":
            return word.error
        key = f"embedrun/beat/{number}"
        beat = self._store.get(key).decode() if self._store.check([key]) else ""
        before, when = self._seen[number]
        if beat != before:
            self._seen[number] = beat, self._clock()
        elif self._clock() - when > (_PATIENCE if word is None else _GRACE):
            how = "gave no sign of life" if word is None else "has stopped, and this one did not stop with it"
            return f"machine {number + 1} of {self._count} {how}"
        return None


def _word(number: int) -> str:
    return f"embedrun/word/{number}"
