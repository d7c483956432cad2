"""What the rest needs of a language model, whether it runs here or elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Answer:
    """What a language model said to one prompt.

    Args:
        text: as it came.
        cut: whether the longest allowed length ended it, so that its last item may be half a sentence.
        refused: why there is no text, or None.
    """

    text: str
    cut: bool = False
    refused: str | None = None


class Llm(Protocol):
    """A language model."""

    @property
    def label(self) -> str:
        """Its name in the `llm` column."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that decides an answer: plain data without a secret or a path of this machine."""
        ...

    @property
    def together(self) -> int:
        """Prompts that one `ask` takes."""
        ...

    @property
    def parallel(self) -> int:
        """Calls of `ask` that may run at once."""
        ...

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """The answers to at most `together` prompts, in their order.

        Raises:
            DataError: if they are not to be had.
        """
        ...

    def stop(self) -> None:
        """Give up waiting in every `ask` that goes on; no further one is made."""
        ...

    def close(self) -> None:
        """Free the memory it takes; a later `ask` loads it again."""
        ...
