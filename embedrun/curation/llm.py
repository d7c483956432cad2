"""What a language model is asked, one behind a server, and the answers that are kept."""

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from embedrun.config.options import LlmConfig
from embedrun.console import clean
from embedrun.errors import DataError
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
    """A language model.

    `settings` are all that decides an answer: plain data without a secret or a path of this machine.
    """

    label: str  # its name in the `llm` column
    settings: Plain
    together: int  # prompts that one `ask` takes
    parallel: int  # calls of `ask` that may run at once

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """The answers to at most `together` prompts, in their order; DataError if they cannot be had."""
        ...

    def close(self) -> None:
        """Free what it takes."""


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


def prompt(kind: str, text: str, size: int) -> str:
    """The prompt for one sentence, as the paper prints it; the full stop after the text is part of it."""
    return TEMPLATES[kind].format(size=size, text=text)


_PATH = "/chat/completions"
_SHOWN = 300  # characters of a server's own words
# Error codes by which an endpoint refuses one prompt and no other.
_REFUSALS = ("content_filter", "content_policy_violation", "context_length_exceeded")


class HttpLlm:
    """Asks an endpoint; the openai package retries, and waits between tries.

    The key is sent as a bearer token and written nowhere; a try may wait `timeout` seconds for the next byte.
    """

    together = 1

    def __init__(self, llm: LlmConfig, *, retries: int, timeout: float) -> None:
        import openai

        self.label, self.parallel = llm.model or "", llm.parallel or 4
        self._url = (llm.url or "").rstrip("/").removesuffix(_PATH)
        options = {"max_tokens": llm.max_new_tokens, "temperature": llm.temperature, "seed": llm.seed}
        self._options = {name: value for name, value in options.items() if value is not None}
        # Without the address: the same model may be served elsewhere tomorrow.
        self.settings: Plain = {"kind": "http", "model": llm.model, **options}
        self._key = os.environ.get(llm.key_variable, "").strip() if llm.key_variable else None
        if self._key == "":
            raise DataError(
                f"the environment variable {llm.key_variable} is not set; export it, or give "
                "key_variable: null to send no key"
            )
        self._headers = None if self._key else {"Authorization": openai.Omit()}
        try:
            self._client = openai.OpenAI(
                api_key=self._key or "none", base_url=self._url, timeout=timeout, max_retries=retries
            )
        except (ImportError, OSError, ValueError, openai.OpenAIError) as fault:
            # Not its text, which may show the password of a proxy.
            self._fail(f"check the url, and the proxy that the environment names ({type(fault).__name__})")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """The answer to the one prompt."""
        import openai

        (prompt,) = prompts
        try:
            completion = self._client.chat.completions.create(
                model=self.label,
                messages=[{"role": "user", "content": prompt}],
                extra_body=self._options,
                extra_headers=self._headers,
            )
            choice = completion.choices[0]
            text, reason = choice.message.content or "", choice.finish_reason
        except (openai.OpenAIError, ValueError, LookupError, TypeError, AttributeError) as fault:
            text, reason = "", getattr(fault, "code", None)
            if reason not in _REFUSALS:
                cause = f"{type(fault).__name__}: {fault.__cause__ or fault}"
                self._fail(f"no chat completion ({cause}); check url, model, their options and the key")
        refused = f"the endpoint's {reason}" if reason in _REFUSALS else None
        return [Answer(self._without_key(text), cut=reason == "length", refused=refused)]

    def _fail(self, reason: str) -> NoReturn:
        reason = clean(" ".join(self._without_key(reason).split()))[:_SHOWN]
        raise DataError(
            f"llm {self.label!r} at {self._url}{_PATH}: {reason}. The answers so far are kept: run the same "
            "command to resume"
        ) from None

    def _without_key(self, text: str) -> str:
        """A text of the endpoint with the key, which it may repeat, removed."""
        return text.replace(self._key, "***") if self._key else text


class Responses:
    """Answers by the model's settings and the prompt, as JSON Lines in a folder, made with the first answer.

    Each process appends to its own file, `name`, and reads those of all.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._file = folder, folder / f"{name}.jsonl"
        self._writing = threading.Lock()
        self._answers: dict[bytes, Answer] = {}
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
        """Store an answer; the first one counts."""
        row = {"llm": llm.settings, "prompt": prompt, **asdict(answer)}
        with self._writing:
            self._answers.setdefault(_key(llm.settings, prompt), answer)
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab") as file:
                # A kill may have left half a line, which this ends.
                file.write(b"\n" * (file.tell() > 0) + to_json_line(row))


def _key(settings: Plain, prompt: str) -> bytes:
    return to_json_line([settings, prompt])


def ask_all(llm: Llm, prompts: Sequence[str], responses: Responses) -> Iterator[int]:
    """Get the answers that are not stored yet, and store them; repeated prompts are asked once.

    Prompts are grouped by all prompts alone, and a group that lacks an answer is asked whole: what is decoded
    together can change the last bits of a local model's numbers, and an interrupted run must give what an
    uninterrupted one gives. Yields the number of prompts that have just been answered.
    """
    # By length, so that what is padded to one length has nearly that length.
    ordered = sorted(dict.fromkeys(prompts), key=lambda prompt: (len(prompt), prompt))
    groups = [ordered[start : start + llm.together] for start in range(0, len(ordered), llm.together)]
    wanted = [group for group in groups if any(responses.get(llm, prompt) is None for prompt in group)]
    yield len(ordered) - sum(map(len, wanted))

    def ask(group: list[str]) -> int:
        for prompt, answer in zip(group, llm.ask(group), strict=True):
            responses.keep(llm, prompt, answer)
        return len(group)

    with ThreadPoolExecutor(llm.parallel) as pool:
        waiting = [pool.submit(ask, group) for group in wanted]
        try:
            for request in as_completed(waiting):
                yield request.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # running requests still store their answers
