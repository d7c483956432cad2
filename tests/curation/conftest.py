from collections.abc import Callable, Sequence

import pytest

from embedrun.curation.llm import Answer


class Scripted:
    """A language model that answers with a function of the prompt and remembers what it was asked."""

    def __init__(
        self, say: Callable[[str], Answer], *, label: str = "scripted", together: int = 1, parallel: int = 1
    ) -> None:
        self.label, self.settings = label, {"kind": "scripted", "name": label}
        self.together, self.parallel = together, parallel
        self.asked: list[list[str]] = []
        self.closed = 0
        self._say = say

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        self.asked.append(list(prompts))
        return [self._say(prompt) for prompt in prompts]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted
