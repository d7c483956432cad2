"""Any encoder, known by `encode` alone, as the mteb package wants to see it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedrun.evaluation.source import Encode

KINDS = ("query", "document")  # of texts, where a task tells them apart
# Texts encoded at once: enough to be sorted by length well, few enough for a corpus of millions.
GROUP = 8192
_TEXT = "{text}"


class NonFiniteError(ValueError):
    """A vector holds NaN or infinity, of which mteb's tasks make no score."""


def prompt_for(
    prompts: Mapping[str, str], names: Sequence[str], category: str, kind: str | None
) -> str | None:
    """The prompt of a text: the most special one that is given, in the order of mteb.

    Args:
        prompts: by task, category or kind of text; or by the first or second with ``-query`` or
            ``-document`` behind it.
        names: of the task and of what it is a part of, the most special first.
        category: of the task.
        kind: of the text; None where the task does not tell them apart.
    """
    ends = ("",) if kind is None else (f"-{kind}", "")
    steps = [name + end for name in (*names, category) for end in ends]
    steps += [] if kind is None else [kind]
    return next((prompts[step] for step in steps if step in prompts), None)


def filled(prompt: str | None, text: str) -> str:
    """The text in its prompt: in place of ``{text}``, or behind a prompt without it."""
    if prompt is None:
        return text
    return prompt.replace(_TEXT, text) if _TEXT in prompt else prompt + text


class EncodeAdapter:
    """An `encode` callable with the methods of mteb's encoder protocol; texts are compared by cosine.

    Args:
        encode: sentences to vectors.
        prompts: as `prompt_for` takes them; a prompt of the model's own is put around it by `encode`.
        part_of: the name of the task that the scored ones are parts of.

    Attributes:
        used: the prompts that were used, by kind of text (``text`` where a task does not tell them apart).
    """

    def __init__(
        self, encode: Encode, prompts: Mapping[str, str] | None = None, part_of: str | None = None
    ) -> None:
        self._encode, self._prompts = encode, prompts or {}
        self._part_of = () if part_of is None else (part_of,)
        self._dim = 0
        self.used: dict[str, str | None] = {}

    @property
    def mteb_model_meta(self) -> Any:
        """What mteb is told of the model: nothing that could change a score."""
        from mteb.models import ModelMeta

        return ModelMeta.create_empty({"name": "embedrun/encoder", "revision": "none"})

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        **_: Any,
    ) -> np.ndarray:
        """Vectors of texts, in order, float32, ``(texts, dim)``.

        Args:
            inputs: a DataLoader whose batches have the texts under ``text``.
            task_metadata: of the task.
            hf_split: is not looked at, as every split is encoded alike.
            hf_subset: the same.
            prompt_type: an enumeration with the values ``query`` and ``document``; None where the task does
                not tell them apart.

        Raises:
            NonFiniteError: if a vector is not finite.
        """
        kind = None if prompt_type is None else str(getattr(prompt_type, "value", prompt_type))
        names = (task_metadata.name, *self._part_of)
        prompt = prompt_for(self._prompts, names, task_metadata.type, kind)
        self.used[kind or "text"] = prompt
        vectors, start = np.empty((0, self._dim), dtype=np.float32), 0  # (texts, dim)
        for group in _groups(inputs):
            found = self._encode([filled(prompt, text) for text in group])  # (group, dim)
            if not torch.isfinite(found).all():
                raise NonFiniteError(f"a vector of {task_metadata.name} is not finite")
            if start == 0:
                self._dim = found.shape[1]
                vectors = np.empty((len(inputs.dataset), self._dim), dtype=np.float32)  # (texts, dim)
            vectors[start : start + len(group)] = found.numpy()
            start += len(group)
        return vectors

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Cosine of every two, ``(first, second)``; 0 where a vector is zero.

        Args:
            embeddings1: array or tensor, ``(first, dim)`` or ``(dim,)``.
            embeddings2: array or tensor, ``(second, dim)`` or ``(dim,)``.
        """
        return _unit(embeddings1) @ _unit(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Cosine of each pair, ``(pairs,)``; arguments as in `similarity`, both of one length."""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(dim=-1)


def _unit(embeddings: Any) -> Tensor:
    return normalize(torch.atleast_2d(torch.as_tensor(embeddings)).float(), dim=-1)  # (texts, dim)


def _groups(inputs: Iterable[Mapping[str, Any]]) -> Iterator[list[str]]:
    """The texts of all batches, `GROUP` at a time."""
    waiting: list[str] = []
    for batch in inputs:
        waiting += batch["text"]
        while len(waiting) >= GROUP:
            yield waiting[:GROUP]
            waiting = waiting[GROUP:]
    if waiting:
        yield waiting
