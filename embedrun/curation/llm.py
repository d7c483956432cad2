"""What a language model is asked, what it answers, and where answers are stored."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from embedrun.files import Plain, to_json_line


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
    """Answers by model, its settings and the prompt, as JSON Lines in a folder.

    It is made with the first answer. Each process appends to its own file, `name`, and reads those of all.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._file = folder, folder / f"{name}.jsonl"
        self._writing = threading.Lock()
        self._answers: dict[str, Answer] = {}
        self.reload()

    def reload(self) -> None:
        """Read what other processes have appended meanwhile."""
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    with contextlib.suppress(ValueError, LookupError, TypeError):  # half a line, of a kill
                        row = json.loads(line)
                        answer = Answer(str(row["text"]), bool(row["cut"]), row["refused"])
                        self._answers.setdefault(_key(row["llm"], row["prompt"]), answer)

    def get(self, llm: Llm, prompt: str) -> Answer | None:
        """The answer, if it is there."""
        return self._answers.get(_key(llm.settings, prompt))

    def keep(self, llm: Llm, prompt: str, answer: Answer) -> None:
        """Store an answer; one that is there already stays."""
        row = {"llm": dict(llm.settings), "prompt": prompt, **asdict(answer)}
        with self._writing:
            if self._answers.setdefault(_key(llm.settings, prompt), answer) is not answer:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab") as file:
                # A kill may have left half a line, which this ends.
                file.write(b"\n" * (file.tell() > 0) + to_json_line(row))


def _key(settings: Plain, prompt: str) -> str:
    return hashlib.sha256(to_json_line({"llm": settings, "prompt": prompt})).hexdigest()


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
    wanted = [group for group in groups if any(responses.get(llm, prompt) is None for prompt in group)]
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
            for request in as_completed(waiting):
                answered(request.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # running requests still store their answers
            raise
