"""What a language model is asked, what it answers, and where answers are stored."""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from embedrun.files import Plain, as_written, publish, read_json, to_json_line


@dataclass(frozen=True)
class Answer:
    """What a language model said to one prompt.

    `cut` says that it ended at its maximum length, so that its last item may be half a sentence; `refused` is
    why there is no text, or None.
    """

    text: str
    cut: bool = False
    refused: str | None = None


class Llm(Protocol):
    """A language model."""

    label: str  # its name in the `llm` column
    together: int  # prompts that one `ask` takes
    parallel: int  # calls of `ask` that may run at once

    @property
    def settings(self) -> Plain:
        """All that decides an answer: plain data without a secret or a path of this machine."""
        ...

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """The answers to at most `together` prompts, in their order.

        Raises:
            DataError: if they cannot be had.
        """
        ...

    def stop(self) -> None:
        """Stop waiting in every running `ask`; no further one is made."""
        ...

    def close(self) -> None:
        """Free the memory it takes; a later `ask` loads it again."""
        ...


# Li and Li 2024 (AnglE), Figure 4, in the wording of the later versions of the paper: one text with
# "same-meaning/opposite-meaning" and "synonymous/antonym", of which each kind takes its own word.
TEMPLATES = {
    "positive": (
        "You are a highly smart same-meaning sentence-generating system. Your job is to generate {size} "
        "synonymous sentences of a given input sentence. Input sentence: {text}. Output:"
    ),
    "negative": (
        "You are a highly smart opposite-meaning sentence-generating system. Your job is to generate {size} "
        "antonym sentences of a given input sentence. Input sentence: {text}. Output:"
    ),
}
# The score of a pair of the input sentence and what the prompt of that kind gave.
SCORES = {"positive": 1, "negative": 0}


def prompt(kind: str, text: str, size: int) -> str:
    """The prompt for one sentence, as the paper prints it; the full stop after the text is part of it.

    `kind` is a key of `TEMPLATES`; `size` is the number of sentences to ask for.
    """
    return TEMPLATES[kind].format(size=size, text=text)


class Responses:
    """A folder of answers by model, its settings and the prompt; several processes may share it.

    It is created with the first answer.
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
        """A stored answer; DataError if there is none, or its file was changed."""
        path = self.path(llm, prompt)
        with as_written(path, "a readable answer", "delete it, and the same command asks again"):
            found = read_json(path)
            text, cut, refused = found["text"], found["cut"], found["refused"]
            known = isinstance(text, str) and isinstance(cut, bool) and isinstance(refused, str | None)
            if not known or found["prompt"] != prompt:
                raise ValueError("no answer to its prompt")
        return Answer(text, cut, refused)


def _request(settings: Plain, prompt: str) -> Plain:
    return {"llm": dict(settings), "prompt": prompt}


def ask_all(llm: Llm, prompts: Sequence[str], responses: Responses, answered: Callable[[int], None]) -> None:
    """Get the answers that are not stored yet, and store them; repeated prompts are asked once.

    Prompts are grouped by all prompts alone, and a group that lacks an answer is asked whole: what is decoded
    together can change the last bits of a local model's numbers, and an interrupted run must give what an
    uninterrupted one gives. `answered` gets the number of prompts that have just been answered.

    Raises:
        DataError: if a prompt is not answered. The answers so far are kept.
    """
    # By length, so that what is padded to one length has nearly that length.
    ordered = sorted(dict.fromkeys(prompts), key=lambda prompt: (len(prompt), prompt))
    groups = [ordered[start : start + llm.together] for start in range(0, len(ordered), llm.together)]
    wanted = [group for group in groups if not all(responses.has(llm, prompt) for prompt in group)]
    answered(len(ordered) - sum(map(len, wanted)))

    def ask(group: list[str]) -> int:
        for prompt, answer in zip(group, llm.ask(group), strict=True):
            responses.keep(llm, prompt, answer)
        return len(group)

    if llm.parallel == 1:
        for group in wanted:
            answered(ask(group))
        return
    with ThreadPoolExecutor(llm.parallel) as pool:
        waiting = [pool.submit(ask, group) for group in wanted]
        try:
            for one in as_completed(waiting):
                answered(one.result())
        except BaseException:
            llm.stop()  # running requests still store their answers
            pool.shutdown(wait=False, cancel_futures=True)
            raise
