"""A transformer: texts to tokens to token vectors."""

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from embedrun.backbone import bert
from embedrun.backbone.declared import Declared
from embedrun.backbone.dropout import SeededDropout
from embedrun.backbone.unpadded import last_layer, trainable, usable
from embedrun.batch import Tokens, TokenTable, sent
from embedrun.errors import ConfigError
from embedrun.pooling import Pooling
from embedrun.prompts import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def groups(
    lengths: np.ndarray, *, overhead: int, power: int = 1, budget: int | None = None, most: int | None = None
) -> list[np.ndarray]:
    r"""Cut texts into groups that are each padded to their longest, at the least total cost.

    Sorted by length, groups are runs of neighbours, and the cost of a cut is

    .. math:: \sum_{g} \bigl(|g| \max_{i \in g} n_i^p + c \bigr)

    with :math:`n_i` the length of text *i*, *c* the overhead and *p* the power, 2 for attention. The best cut
    at changes of length is found exactly, by dynamic programming over the distinct lengths.

    Args:
        lengths: tokens of each text, ``(texts,)``, >= 1.
        overhead: cost of one more forward pass, in tokens.
        budget: padded tokens of a group, at most, unless one text alone is longer; None: no limit.
        most: texts of a group, at most; None: no limit.

    Returns:
        Positions of the texts of each group, longest group first, so that a lack of memory shows at once.
    """
    order = np.argsort(lengths, kind="stable")  # (texts,)
    distinct, counts = np.unique(lengths, return_counts=True)  # (kinds,) each
    before = np.concatenate([[0], np.cumsum(counts)])  # (kinds + 1,) texts shorter than kind i
    least = np.zeros(len(before))  # (kinds + 1,) cost of the first i kinds
    start = np.zeros(len(before), dtype=np.int64)  # (kinds + 1,) where the last run of that cost begins
    for end in range(1, len(before)):
        width = int(distinct[end - 1])
        texts = before[end] - before[:end]  # (end,) by where the run begins
        passes = np.ceil(texts / _texts_in_pass(width, budget, most))
        cost = least[:end] + width**power * texts + overhead * passes
        start[end] = np.argmin(cost)
        least[end] = cost[start[end]]
    cut: list[np.ndarray] = []
    end = len(distinct)
    while end > 0:
        begin = int(start[end])
        run = order[before[begin] : before[end]][::-1]  # longest first
        size = _texts_in_pass(int(distinct[end - 1]), budget, most)
        cut += [run[i : i + size] for i in range(0, len(run), size)]
        end = begin
    return cut


def _texts_in_pass(width: int, budget: int | None, most: int | None) -> int:
    # Without a limit any number larger than a batch serves; it must stay finite for the division.
    fit = 2**31 if budget is None else max(1, budget // width)
    return fit if most is None else min(fit, most)


@contextlib.contextmanager
def without_flash(model: Any) -> Iterator[None]:
    """Within it, a model with flash attention has sdpa if the pass is in float32, as all scoring is."""
    weight = model.get_input_embeddings().weight
    if weight.dtype != torch.float32 or torch.is_autocast_enabled(weight.device.type):
        yield
        return
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation("flash_attention_2")


def token_ids(
    tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], before: str, after: str, *, max_length: int
) -> list[list[int]]:
    """Token ids of ``before + text + after``, special tokens included, as of one whole string.

    Of a string of more than `max_length` tokens, special ones included, the end of the text is cut, at the
    end of a token, so that as much of it is kept as fits with the whole prompt. A model never sees a string
    that could not have been written out.
    """
    (prompt,) = _tokenized(tokenizer, [before + after])["input_ids"]
    if len(prompt) >= max_length:
        raise ConfigError(
            f"backbone.prompt: takes {len(prompt)} tokens by itself, and a text with it is cut to "
            f"{max_length}; shorten the prompt, or raise backbone.max_length (of a view of a loss: its "
            "max_length; where it is scored: evaluation.max_length)"
        )
    filled = [before + text + after for text in texts]
    if not after and tokenizer.truncation_side == "right":  # the end of the string is the end of the text
        return _tokenized(tokenizer, filled, truncation=True, max_length=max_length)["input_ids"]
    tokenized = _tokenized(tokenizer, filled)
    all_ids: list[list[int]] = tokenized["input_ids"]
    for place in [place for place, ids in enumerate(all_ids) if len(ids) > max_length]:
        if not tokenizer.is_fast:
            raise ConfigError(
                "backbone.prompt: this tokenizer does not say where its tokens stand in a text, so that a "
                "long text cannot be cut within the prompt; raise max_length, or end the prompt with {text}"
            )
        text, ids = texts[place], all_ids[place]
        # Where the text may end: behind each of its own tokens, in characters of the text.
        ends = _ends(tokenized.encodings[place].offsets, len(before), len(before) + len(text))
        # The text may be tokenised into one token more at its new end.
        while (excess := len(ids) - max_length) > 0:
            ends = ends[: max(0, len(ends) - excess)]
            (ids,) = _tokenized(tokenizer, [before + text[: ends[-1] if ends else 0] + after])["input_ids"]
        all_ids[place] = ids
    return all_ids


def _ends(offsets: Sequence[tuple[int, int]], first: int, last: int) -> list[int]:
    """Where those tokens end, counted from the beginning of the text, that end inside it, in order."""
    return sorted(end - first for begin, end in offsets if begin < end and first < end <= last)


def _tokenized(tokenizer: "PreTrainedTokenizerBase", texts: list[str], **cut: Any) -> Any:
    return tokenizer(
        texts,
        padding=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,  # a string that is too long is cut by us
        **(cut or {"truncation": False}),
    )


def worth_unpadding(lengths: np.ndarray) -> bool:
    """Whether training on texts of these lengths, ``(texts,)``, is faster without padding on a processor.

    A function of the lengths alone: what it gains in float32, it gains in bfloat16 too. `make
    bench-train-cpu` measures both ways on lengths around the bar.
    """
    cut = groups(lengths, overhead=_OVERHEAD["cpu"])
    padded = sum(len(index) * int(lengths[index].max()) for index in cut) + _OVERHEAD["cpu"] * (len(cut) - 1)
    return padded - int(lengths.sum()) >= _WORTH_UNPADDING


def computed_tokens(lengths: np.ndarray, device: str, *, flat: bool) -> int:
    """Tokens of the training passes over texts of these lengths, ``(texts,)``, padding too unless `flat`."""
    if flat:
        return int(lengths.sum())
    return sum(len(cut) * int(lengths[cut].max()) for cut in groups(lengths, overhead=_OVERHEAD[device]))


USUAL = 512  # tokens: the positions of BERT and RoBERTa


def scored_length(reads: int, declared: Declared, *, trained: int | None, is_new: bool) -> int:
    """Tokens of a text that is scored, where no option says so.

    Scores of published tables are of whole sentences, whatever length a model was trained on: SentEval and
    SimCSE do not truncate. So this is all that the model `reads` by its files, but no more than 512 tokens,
    or than it was `trained` on by an option. What embedrun saved says the length itself, as does the
    configuration of a model that `is_new`.
    """
    if is_new or declared.is_ours:
        return reads
    return min(reads, max(USUAL, trained or 0))


_TABLES = ("position_embeddings", "wpe", "embed_positions")  # the second is GPT's, the third OPT's


def longest_text(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", *, limit: int | None, declared: int | None
) -> int:
    """Tokens of a text, special tokens included; longer texts are cut.

    The configuration's `limit` wins; then what is `declared` by the model's own files, up to the
    model's positions; then the smallest of the limits of tokenizer and model.
    """
    positions = absolute_positions(model)
    if limit is not None:
        if positions is not None and limit > positions:
            raise ConfigError(
                f"max_length: {limit} tokens asked for, and the model has {positions} positions"
            )
        return limit
    if declared is not None:
        return declared if positions is None else min(declared, positions)
    # The tokenizer's is an enormous number where it has no limit.
    limits = [positions, tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    return min(tokens for tokens in limits if tokens is not None and tokens > 0)


def absolute_positions(model: nn.Module) -> int | None:
    """Rows of the table of position vectors that a text can use; None for a model without one."""
    for name, module in model.named_modules():
        if name.endswith(_TABLES) and isinstance(module, nn.Embedding):
            # RoBERTa counts from the row after the padding's, so the rows up to it are never a position.
            skipped = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - skipped - getattr(module, "offset", 0)  # OPT's begins after that
    return None


# What one more forward pass costs, in tokens: the time of the calls around the arithmetic. Measured on a
# CPU with a small model. That of CUDA is computed, not measured: with its backward pass a BERT-base in
# bfloat16 starts about 1,000 kernels, which take a host about 20 ms; 3 microseconds of those are one token.
_OVERHEAD = {"cpu": 32, "cuda": 6000}
_ONE_PASS = 2**40  # without padding no grouping of texts saves anything
# Tokens of a pass beyond which a CPU gains nothing: the activations no longer fit into its caches.
_ENOUGH = {"cpu": 2048}
# What one more view of texts side by side costs in an unpadded pass on a CPU, in squares of tokens; likewise.
_ATTENTION_OVERHEAD = 400
# Tokens that an unpadded pass of training must save, each further pass counted as 32, to be no slower.
# Measured with all-MiniLM-L6-v2 in float32: 32 of 1024 gain nothing, 44 of 152 an eighth, 49 of 1004 a 20th.
_WORTH_UNPADDING = 32
_PASSES_OF_A_THREAD = 4  # threads share a pass where there are fewer for each: the last would leave some idle
_TEXTS_AT_ONCE = 8192  # tokenised in one call, so that a large data set is never held as Python lists


class Backbone(nn.Module):
    """A transformer with its tokenizer.

    The one place that decides about padding. Texts are sorted by length and cut into groups that share a
    forward pass; a group without padding runs without a mask. Padding stands on the right for every
    model: real tokens then keep their positions, whatever group they are in. Where
    :func:`~embedrun.backbone.unpadded.usable` says so, and in training on a processor where
    `worth_unpadding` does, the texts lie one behind the other, and only the last layer's output is padded.

    A pooler of the model is kept but neither used nor trained here. `max_length` counts tokens of a training
    text, special ones included; `origin` has the `name` of the model, and the `commit` of a hub id;
    `attention` is the implementation that was asked of transformers.

    `model` may be a :class:`~embedrun.backbone.bert.Bert`, which encodes; whoever asks for `model` or
    `tokenizer` gets those of transformers, which then take its place, with the same weights.
    """

    def __init__(
        self,
        model: "PreTrainedModel | bert.Bert",
        tokenizer: Any,
        *,
        max_length: int,
        declared: Declared,
        origin: dict[str, str | None],
        attention: str = "sdpa",
    ) -> None:
        super().__init__()
        self._modules["model"] = model
        self.attention = attention
        self.one_pass = False  # of all texts, as where each process of a run holds a part of the weights
        self.words: Any = tokenizer
        self.max_length = max_length
        self.declared = declared
        self.origin = origin
        self.dim: int = model.config.hidden_size
        if getattr(model, "pooler", None) is not None:
            model.pooler.requires_grad_(False)

    @property
    def model(self) -> "PreTrainedModel":
        """The model, of transformers."""
        model = self.encoding
        if isinstance(model, bert.Bert):
            model, self.words = bert.complete(model)
            self._modules["model"] = model
        return model

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer, of transformers."""
        self.model  # noqa: B018, brings it along
        return self.words

    @property
    def encoding(self) -> Any:
        """What encodes now: `model`, or the one that was read in its place; `words` is its tokenizer."""
        return self._modules["model"]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def tokenize(
        self, texts: Sequence[str], max_length: int | None = None, prompt: Prompt | None = None
    ) -> TokenTable:
        """Token ids of each text, special tokens included.

        Texts are cut to `max_length` tokens, by default to that of the backbone; the model must have so many
        positions. A prompt counts towards the length, and is never cut.
        """
        length = max_length or self.max_length
        ids: list[np.ndarray] = []
        lengths: list[int] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            part = list(texts[start : start + _TEXTS_AT_ONCE])
            if prompt is not None:
                part = [prompt.edited(text) for text in part]
            if self.declared.lowercase:
                part = [self._lower(text) for text in part]
            rows = self._cut(part, length) if prompt is None else self._prompted(part, prompt, length)
            # Without special tokens an empty text has no tokens; one filler token keeps its place.
            rows = [row or [self.filler] for row in rows]
            ids.append(np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int32))
            lengths += [len(row) for row in rows]
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])  # (texts + 1,)
        return TokenTable(np.concatenate([*ids, np.empty(0, np.int32)]), starts, self.skipped(prompt))

    def skipped(self, prompt: Prompt | None) -> int:
        """How many tokens stand before a text in its prompt, those that begin every text included.

        As of sentence-transformers: the tokens of the words before the text alone, but for a special token at
        their end.
        """
        if prompt is None or not prompt.before:
            return 0
        before = self._lower(prompt.before) if self.declared.lowercase else prompt.before
        (ids,) = self._cut([before], self.max_length)
        return len(ids) - (ids[-1] in self.words.all_special_ids)

    def _cut(self, texts: list[str], length: int) -> list[list[int]]:
        backend = getattr(self.words, "backend_tokenizer", None)
        if backend is None:
            return self.tokenizer(texts, truncation=True, max_length=length, padding=False)["input_ids"]
        # The same ids as from the call above in half of the time: that one makes masks and offsets, too.
        backend.enable_truncation(length, direction=self.words.truncation_side)
        backend.no_padding()
        return [encoding.ids for encoding in backend.encode_batch_fast(texts)]

    def _prompted(self, texts: list[str], prompt: Prompt, length: int) -> list[list[int]]:
        before, after = prompt.before, prompt.after
        if self.declared.lowercase:
            before, after = self._lower(before), self._lower(after)
        return token_ids(self.tokenizer, texts, before, after, max_length=length)

    def _lower(self, text: str) -> str:
        mask = getattr(self.words, "mask_token", None)
        return text.lower() if not mask else mask.join(part.lower() for part in text.split(mask))

    def forward(
        self,
        tokens: Tokens,
        pool: Pooling,
        *,
        dropout: bool = True,
        seeds: Tensor | None = None,
        unpadded: bool = False,
    ) -> Tensor:
        """One vector a text, in the order of `tokens`, ``(texts, dim)``.

        The tokens are on the CPU. With `seeds`, int64, ``(texts,)``, the dropout of each text is a function
        of its seed alone (:class:`~embedrun.backbone.dropout.SeededDropout`); else torch's own random state
        decides. `unpadded` passes on a processor are without padding where that is faster.
        """
        model = self.model  # for dropout and gradients, that of transformers
        with contextlib.nullcontext() if dropout else _evaluating(model):
            parts = list(self.parts(tokens, pool, seeds=seeds, unpadded=unpadded))
        if not parts:
            return torch.zeros(0, self.dim, device=self.device)
        order = np.concatenate([index for index, _ in parts])  # (texts,)
        back = sent(torch.from_numpy(np.argsort(order)), self.device)  # (texts,)
        return torch.cat([vectors for _, vectors in parts])[back]  # (texts, dim)

    def token_states(self, tokens: Tokens, chosen: Tensor, *, seeds: Tensor | None = None) -> Tensor:
        """Hidden states of the last layer of chosen tokens, in their order, ``(places, dim)``, with gradient.

        `chosen`, bool, ``(tokens,)``, is on the CPU; `seeds` as in `forward`.
        """
        lengths, there = tokens.lengths.numpy(), chosen.numpy()
        starts = np.cumsum(lengths) - lengths  # (texts,)
        states, places = [], []
        for index, padded in self.parts(tokens, _Last(), seeds=seeds, unpadded=True):
            column = np.arange(padded.shape[1])  # (width,)
            place = starts[index, None] + column  # (group, width)
            wanted = (column < lengths[index, None]) & there[np.minimum(place, len(there) - 1)]
            flat = sent(torch.from_numpy(np.flatnonzero(wanted)), self.device)  # (places of the group,)
            states.append(padded.flatten(0, 1)[flat])
            places.append(place[wanted])
        order = sent(torch.from_numpy(np.argsort(np.concatenate(places))), self.device)  # (places,)
        return torch.cat(states)[order]

    def parts(
        self,
        tokens: Tokens,
        pool: "Pooling | _Last",
        *,
        budget: int | None = None,
        most: int | None = None,
        seeds: Tensor | None = None,
        unpadded: bool = False,
        threads: int = 1,
    ) -> Generator[tuple[np.ndarray, Tensor], None, None]:
        """The same group by group: positions of its texts ``(group,)``, and their vectors ``(group, dim)``.

        `budget` is the most padded tokens of a forward pass; fewer where more gain nothing. `most` is the
        most texts of one. None: no limit. With several `threads`, and passes enough for them, each computes
        whole ones by itself, without gradient; close the iterator to stop them.
        """
        if budget is not None:
            budget = min(budget, _ENOUGH.get(self.device.type, budget))
        ids, lengths = tokens.ids.numpy(), tokens.lengths.numpy()
        starts = np.cumsum(lengths) - lengths  # (texts,)
        # Vectors of padding and of inner layers need a padded pass.
        last_alone = pool.padded_to is None and not pool.all_layers
        flat = last_alone and self._without_padding(lengths, seeds, unpadded)
        together = flat or (self.one_pass and self.training)
        overhead = _ONE_PASS if together else _OVERHEAD.get(self.device.type, _OVERHEAD["cuda"])
        widths = np.maximum(lengths, pool.padded_to or 0)  # (texts,)

        def encode(index: np.ndarray) -> tuple[np.ndarray, Tensor]:
            column = np.arange(widths[index].max())  # (width,)
            real = column < lengths[index, None]  # (group, width)
            place = np.minimum(starts[index, None] + column, len(ids) - 1)  # (group, width)
            padded = np.where(real, ids[place], self.filler)  # (group, width)
            alone = flat and not real.all()
            laid = torch.from_numpy(lengths[index]) if alone else None
            dropout = contextlib.nullcontext()
            if seeds is not None:
                dropout = SeededDropout(seeds[torch.from_numpy(index.copy())], self.device, laid)
            with dropout:
                layers, mask = self._run(padded, real, pool.all_layers, alone)
            if pool.skip_prompt and tokens.skips is not None:
                # A text always has its last token, which is behind the prompt or, of no text, special.
                behind = np.minimum(tokens.skips.numpy()[index], lengths[index] - 1)  # (group,)
                mask = mask * sent(
                    torch.from_numpy((column >= behind[:, None]).astype(np.int64)), self.device
                )
            return index, pool(layers, mask)

        passes = groups(widths, overhead=overhead, budget=budget, most=most)
        few = len(passes) < _PASSES_OF_A_THREAD * threads
        yield from map(encode, passes) if threads == 1 or few else _side_by_side(encode, passes, threads)

    def _without_padding(self, lengths: np.ndarray, seeds: Tensor | None, unpadded: bool) -> bool:
        if self.attention != "sdpa":  # the user's wish
            return False
        if self.device.type != "cpu":
            # There, seeded dropout knows texts by their row.
            return seeds is None and usable(self.encoding)
        return unpadded and trainable(self.model) and worth_unpadding(lengths)

    def _run(
        self, padded: np.ndarray, real: np.ndarray, all_layers: bool, flat: bool
    ) -> tuple[Sequence[Tensor], Tensor]:
        mask = sent(torch.from_numpy(real.astype(np.int64)), self.device)  # (group, width)
        if flat:
            on_cpu = self.device.type == "cpu"
            side_by_side = groups(real.sum(axis=1), overhead=_ATTENTION_OVERHEAD, power=2) if on_cpu else None
            return (last_layer(self.model, padded, real, side_by_side),), mask  # (group, width, dim)
        ids = sent(torch.from_numpy(padded), self.device)  # (group, width)
        seen = None if real.all() else mask
        flash = self.attention == "flash_attention_2"
        with without_flash(self.encoding) if flash else contextlib.nullcontext():
            output = self.encoding(
                input_ids=ids, attention_mask=seen, output_hidden_states=all_layers, return_dict=True
            )
        last = output.last_hidden_state  # (group, width, dim)
        # Some models apply a final norm after their last layer; the last of all layers has it here too.
        return (*output.hidden_states[:-1], last) if all_layers else (last,), mask

    @property
    def filler(self) -> int:
        """The token that pads, and that stands for a text without any."""
        # Any token would do under a mask, but RoBERTa tells positions from padding by its id.
        padding, end = self.words.pad_token_id, self.words.eos_token_id
        return padding if padding is not None else end or 0


class _Last:
    """In place of a pooling: the last layer as it is, ``(group, width, dim)``."""

    padded_to, all_layers, skip_prompt = None, False, False

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        return layers[-1]


def _side_by_side(
    encode: Callable[[np.ndarray], tuple[np.ndarray, Tensor]], passes: list[np.ndarray], threads: int
) -> Iterator[tuple[np.ndarray, Tensor]]:
    # Threads that share a pass instead wait for each other at every operation.
    def begin() -> None:
        torch.set_num_threads(1)  # of this thread; and of new ones, until it is set back below
        torch.set_grad_enabled(False)

    pool = ThreadPoolExecutor(threads, initializer=begin)
    try:
        yield from pool.map(encode, passes)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
