"""Every answer of a language model in a file of its own, so that none is asked for twice."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedrun.dataset.generation.llm import Answer, Llm
from embedrun.errors import DataError
from embedrun.files import publish, to_json_line


class Responses:
    """A folder of answers by model, its settings and the prompt; several processes may share it.

    Args:
        folder: made with the first answer.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, llm: Llm, prompt: str) -> Path:
        """Where the answer is or would be."""
        key = hashlib.sha256(to_json_line(_request(llm.settings, prompt))).hexdigest()
        return self._folder / key[:2] / f"{key}.json"

    def has(self, llm: Llm, prompt: str) -> bool:
        """Whether the answer is there."""
        return self.path(llm, prompt).is_file()

    def keep(self, llm: Llm, prompt: str, answer: Answer) -> None:
        """Store an answer; one that is there already stays."""
        content = {
            **_request(llm.settings, prompt),
            "text": answer.text,
            "cut": answer.cut,
            "refused": answer.refused,
        }
        publish(self.path(llm, prompt), to_json_line(content) + b"\n")

    def get(self, llm: Llm, prompt: str) -> Answer:
        """A stored answer.

        Raises:
            DataError: if there is none, or its file was changed.
        """
        path = self.path(llm, prompt)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            text, cut, refused = found["text"], found["cut"], found["refused"]
            if not isinstance(text, str) or not isinstance(cut, bool) or found["prompt"] != prompt:
                raise ValueError("not an answer to its prompt")
        except (OSError, ValueError, KeyError, TypeError) as fault:
            raise DataError(
                f"{path}: no readable answer ({type(fault).__name__}: {fault}); delete it, and the same "
                "command asks again"
            ) from fault
        return Answer(text, cut, refused)


def _request(settings: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    return {"llm": dict(settings), "prompt": prompt}
