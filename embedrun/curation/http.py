"""A language model behind an OpenAI-compatible server, asked through the openai package."""

from collections.abc import Sequence
from typing import NoReturn

import openai

from embedrun.console import clean
from embedrun.curation.llm import Answer
from embedrun.errors import DataError

_PATH = "/chat/completions"
_SHOWN = 300  # characters of a server's own words
# Error codes by which an endpoint refuses one prompt and no other.
_REFUSALS = ("content_filter", "content_policy_violation", "context_length_exceeded")
_NEXT_STEPS = {
    400: "; check the model and its options",
    401: "; check the key in the variable that key_variable names",
    403: "; check what the key may be used for",
    404: "; check url and model",
}


class HttpLlm:
    """Asks an endpoint; the openai package retries, and waits between tries.

    Args:
        url: above `/chat/completions`.
        key: sent as a bearer token and written nowhere; None sends none.
        max_new_tokens: of an answer; None leaves it, as `temperature` and `seed`, to the endpoint.
        timeout: seconds that a try may wait for the next byte.

    Raises:
        DataError: if the environment names a proxy or certificates that cannot be used.
    """

    together = 1

    def __init__(
        self,
        *,
        url: str,
        model: str,
        key: str | None = None,
        max_new_tokens: int | None = 512,
        temperature: float | None = 0.0,
        seed: int | None = None,
        parallel: int = 4,
        retries: int = 6,
        timeout: float = 120.0,
    ) -> None:
        self._base, self._key = url.rstrip("/").removesuffix(_PATH), key
        self._options = {"max_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        self.label, self.parallel = model, parallel
        # Without the address: the same model may be served elsewhere tomorrow.
        self.settings = {"kind": "http", "model": model, **self._options}
        try:
            self._client = openai.OpenAI(
                api_key=key or "none",
                base_url=self._base,
                timeout=timeout,
                max_retries=retries,
            )
        except (ImportError, OSError, ValueError, openai.OpenAIError) as fault:
            # Not its text, which may show the password of a proxy.
            self._fail(f"check the url, and the proxy that the environment names ({type(fault).__name__})")

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """The answers, one request after the other.

        Raises:
            DataError: if the endpoint refuses, or the last try has failed too.
        """
        return [self._answer(prompt) for prompt in prompts]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _answer(self, prompt: str) -> Answer:
        options = {name: value for name, value in self._options.items() if value is not None}
        headers = None if self._key else {"Authorization": openai.Omit()}
        try:
            completion = self._client.chat.completions.create(
                model=self.label,
                messages=[{"role": "user", "content": prompt}],
                extra_body=options,
                extra_headers=headers,
            )
            choice = completion.choices[0]
            text, reason = choice.message.content or "", choice.finish_reason
        except openai.APIStatusError as fault:
            if fault.code in _REFUSALS:
                return Answer("", refused=f"the endpoint's {fault.code}")
            self._fail(fault.message + _NEXT_STEPS.get(fault.status_code, ""))
        except openai.OpenAIError as fault:
            self._fail(f"{fault} ({fault.__cause__})")
        except (ValueError, LookupError, TypeError, AttributeError) as fault:
            self._fail(f"the response is not a chat completion ({type(fault).__name__})")
        refused = "the endpoint's content_filter" if reason == "content_filter" else None
        return Answer(self._without_key(text), cut=reason == "length", refused=refused)

    def _fail(self, reason: str) -> NoReturn:
        reason = clean(" ".join(self._without_key(reason).split()))[:_SHOWN]
        raise DataError(
            f"llm {self.label!r} at {self._base}{_PATH}: {reason}. The answers so far are kept: run the same "
            "command to resume"
        ) from None

    def _without_key(self, text: str) -> str:
        """A text of the endpoint with the key, which it may repeat, removed."""
        return text.replace(self._key, "***") if self._key else text
