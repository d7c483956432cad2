"""Encoder: texts in, one vector each out."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from embedrun import backbone as backbones
from embedrun import cycles, export
from embedrun.backbone import Backbone, adapter
from embedrun.backbone.adapter import has_adapter
from embedrun.backbone.declared import activation_of, read_mapping
from embedrun.backbone.packed import packed
from embedrun.backbone.pretrained import quiet
from embedrun.backbone.transformer import absolute_positions, longest_text, scored_length
from embedrun.batch import Tokens, TokenTable
from embedrun.config import BackboneConfig, PoolingConfig
from embedrun.console import Progress, say_and_log
from embedrun.errors import ConfigError, DataError
from embedrun.pooling import (
    HEAD,
    POOLER,
    POOLINGS,
    SKIPPING,
    Dense,
    OfLayers,
    Pooling,
    behind,
    new_head,
    pooler_layer,
    problems,
    read_dense,
    read_head,
)
from embedrun.prompts import Prompt, of

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_BATCH_TOKENS = 4096  # of a forward pass where neither limit is given
_TIMES_ON_CUDA = 8  # as many tokens in a pass; with fewer the device is not filled (an estimate)
_NO_LIMIT = 2**31
_Vectors = np.ndarray | Tensor | Sequence[np.ndarray | Tensor | Sequence[float] | float]


class Encoder(nn.Module):
    """A backbone, a pooling, perhaps a layer behind it, and vectors scaled to length 1 or not.

    Args:
        head: the layer behind ``cls_mlp``; None: none.
        dense: layers behind the pooling, as the model's files have them.
        keep_head: whether `encode` and `save` use it, and not only `forward`, which is for training.
        prompt: what `encode` puts around every text; None: nothing.
        roles: what it puts around queries and documents instead, by role; one that is left out has `prompt`.

    Raises:
        ConfigError: for a pooling that the backbone does not support, or a prompt that leaves no room for a
            text.
    """

    def __init__(
        self,
        backbone: Backbone,
        pooling: Pooling,
        *,
        normalize: bool = False,
        head: nn.Linear | None = None,
        dense: Sequence[Dense] = (),
        keep_head: bool = False,
        prompt: Prompt | None = None,
        roles: Mapping[str, Prompt | None] | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooling = pooling
        self.normalize = normalize
        self.head = head
        self.dense = nn.Sequential(*dense)
        self._dim = dense[-1].linear.out_features if dense else backbone.dim
        self.keep_head = keep_head
        self.layers_every: int | None = None  # of a training whose losses see inner layers
        # Encodes with the other processes of a run; None, also as a result: this one does alone.
        self.divide: Callable[..., np.ndarray | None] | None = None
        if pooling.name == POOLER:
            # Under an adapter it is as frozen as the rest: an adapter's files would not hold it.
            pooler_layer(backbone.model).requires_grad_(not has_adapter(backbone.model))
        self.max_length = backbone.max_length
        self._check_padding("backbone")
        self.use(prompt, roles or {})

    @classmethod
    def build(
        cls,
        backbone: BackboneConfig,
        pooling: PoolingConfig,
        *,
        seed: int,
        vocabulary_texts: Callable[[], Iterable[str]] | Iterable[str] | None = None,
        encodes_only: bool = False,
    ) -> "Encoder":
        """The encoder that a configuration describes, on the CPU, in training mode as `nn.Module` is.

        Pooling ``auto`` is what the model's files say, else the mean. With any other name,
        modules in the files that embedrun lacks are ignored. A `normalize` or `prompt` of null is what the
        files say, else none. The head of ``cls_mlp`` is that of the files, else new. `seed` is for weights
        that no file gives; the vocabulary of a backbone from scratch is made of `vocabulary_texts`. With
        `encodes_only`, transformers is imported only when something but `encode` needs it.

        Raises:
            ConfigError: for options that do not fit each other or the model.
            DataError: if the model cannot be found or read.
        """
        if wrong := problems(pooling):
            raise ConfigError(wrong)
        loaded = backbones.load(backbone, vocabulary_texts, seed=seed, encodes_only=encodes_only)
        chosen, says = _choose(pooling, loaded), loaded.declared
        if chosen.warning:
            say_and_log(f"warning: {chosen.warning}")
        head = None
        dense, dim = [], loaded.dim
        for place in says.dense if pooling.name == "auto" else ():
            settings = read_mapping(place / "config.json")
            dense.append(read_dense(place, settings, activation_of(settings), dim=dim))
            dim = dense[-1].linear.out_features
        if chosen.name == HEAD:
            head = read_head(says.head, dim=loaded.dim) if says.head else new_head(loaded.model, seed=seed)
        encoder = cls(
            loaded,
            chosen,
            normalize=bool(says.normalize if pooling.normalize is None else pooling.normalize),
            head=head,
            dense=dense,
            # Files hold a head because it was kept.
            keep_head=head is not None and (pooling.keep_head or pooling.name == "auto"),
            prompt=says.prompt if backbone.prompt is None else of(backbone.prompt),
            roles=says.by_role,
        )
        cycles.started()
        return encoder.train()

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        device: str | torch.device = "cpu",
        revision: str | None = None,
        max_length: int | None = None,
    ) -> "Encoder":
        """A finished encoder, in evaluation mode.

        Args:
            name: model folder, run directory or hub id.
            device: where it computes.
            revision: commit, branch or tag of a hub id; None: the newest.
            max_length: tokens; None: what the model's files say.

        Raises:
            ConfigError: if `max_length` is more than the model reads, or its pooling is not one of ours.
            DataError: if the model cannot be found or read.
        """
        config = BackboneConfig(name=str(name), revision=revision, max_length=max_length)
        on_cpu = torch.device(device).type == "cpu"
        return cls.build(config, PoolingConfig(), seed=0, encodes_only=on_cpu).to(device).eval()

    def use(self, prompt: Prompt | None, roles: Mapping[str, Prompt | None] | None = None) -> None:
        """Encode, and save, with these prompts from now on; ConfigError if one leaves no room for a text.

        `roles` are those of queries and documents; None: as before.
        """
        for one in (prompt, *(roles or {}).values()):
            if one is not None:
                self.backbone.tokenize([""], self.max_length, one)  # refuses it
        self.prompt = prompt
        self.roles = dict(self.roles if roles is None else roles)

    def score_at(self, length: int | None, *, trained: int | None = None) -> None:
        """Encode, and save, texts of up to `length` tokens from now on; None: as `scored_length` says.

        A model with fewer positions reads as many as it has. `trained` are the tokens of a training text,
        where an option says so.
        """
        model, says = self.backbone.encoding, self.backbone.declared
        if length is None:
            reads = longest_text(model, self.backbone.words, limit=None, declared=says.max_length)
            is_new = self.backbone.origin["name"] is None
            self.max_length = scored_length(reads, says, trained=trained, is_new=is_new)
        else:
            self.max_length = min(length, absolute_positions(model) or length)
        self._check_padding("evaluation")
        self.use(self.prompt)

    def _check_padding(self, group: str) -> None:
        padded_to = self.pooling.padded_to
        if padded_to is not None and padded_to > self.max_length:
            raise ConfigError(
                f"pooling.padded_to: {padded_to} tokens asked for, and the backbone reads {self.max_length}; "
                f"lower it, or raise {group}.max_length where the model allows it"
            )

    def add(self, layer: Dense) -> None:
        """Put one more layer behind the pooling, for all that follows."""
        self.dense.append(layer)
        self._dim = layer.linear.out_features

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._dim

    def forward(
        self, tokens: Tokens, *, dropout: bool = True, seeds: Tensor | None = None, unpadded: bool = False
    ) -> Tensor:
        """Vectors of texts for training, in order, ``(texts, dim)``, float32 or wider and with gradient.

        With `layers_every` they are those of inner layers and the last, side by side.

        They differ from those of `encode` by dropout, and by a head that only training has. The tokens are on
        the CPU; `seeds`, int64, ``(texts,)``, make the dropout of each text a function of its seed alone.
        `unpadded` passes on a processor are without padding where that is faster.
        """
        pool = self.pooling if self.layers_every is None else OfLayers(self.pooling, self.layers_every)
        vectors = self.backbone(tokens, pool, dropout=dropout, seeds=seeds, unpadded=unpadded)
        vectors = vectors.unflatten(1, (-1, self.backbone.dim))  # (texts, layers, width)
        return self.scale(self.behind(self.layer(training=True), vectors)).flatten(1)

    def behind(self, layer: nn.Linear | None, pooled: Tensor) -> Tensor:
        """Pooled vectors, ``(..., width)``, through what stands behind the pooling, ``(..., dim)``."""
        return self.dense(pooled if layer is None else behind(layer, pooled))

    def tokenize(self, texts: list[str], role: str | None = None) -> TokenTable:
        """Token ids of texts as `encode` reads them: in the prompt, cut to `max_length` tokens."""
        return self.backbone.tokenize(texts, self.max_length, self.roles.get(role or "", self.prompt))

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        role: str | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = False,
        precision: Literal["fp32", "bf16"] = "fp32",
        scaled: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> np.ndarray:
        """Vectors of texts for use, not for training.

        Each distinct text is computed once, in `precision` and without dropout, whatever mode and autocast
        the caller is in; both are as before afterwards, and no random number is drawn. With all-MiniLM-L6-v2:

        >>> from embedrun import Encoder
        >>> encoder = Encoder.load(folder)  # a model folder, a run directory or a hub id
        >>> vectors = encoder.encode(["A dog runs.", "A dog is running.", "It rains."])
        >>> vectors.shape, str(vectors.dtype)
        ((3, 384), 'float32')
        >>> encoder.encode("A dog runs.").shape
        (384,)
        >>> cosine = encoder.similarity(vectors, vectors)
        >>> bool(cosine[0, 1] > cosine[0, 2])
        True

        Args:
            texts: any number, in any order; or one text.
            role: `query` or `document`: with the prompt that the model has for them; None: as any text.
            batch_size: texts of a forward pass, at most; None: no limit. Texts of similar length go together,
                whatever their order.
            batch_tokens: padded tokens of a forward pass, at most, but for a text that alone is longer, and
                eight times as many on CUDA; None: 4,096 without `batch_size`, no limit of yours with it. A
                pass is never larger than the device gains from. Both limits change speed and memory, not
                vectors.
            show_progress_bar: on standard error; a line every ten seconds where that is no terminal.
            normalize_embeddings: scale to length 1 also what the model does not, and whatever `scaled` is.
            precision: of the forward pass; `bf16` is autocast to bfloat16. Pooling is in float32 in both.
            scaled: False leaves out the scaling to length 1 of a model with `normalize`.
            progress: called after each pass with the distinct texts done and their number.

        Returns:
            float32, ``(texts, dim)``, in the order of `texts`; ``(dim,)`` for one text.

        Raises:
            ValueError: if `precision` is neither of the two, or `batch_size` is below 1.
        """
        budget = self._pass_tokens(batch_size, batch_tokens)
        if precision not in _TYPES:
            raise ValueError(f"precision must be one of {', '.join(_TYPES)}, got {precision!r}")
        alone = isinstance(texts, str)
        texts = [texts] if isinstance(texts, str) else texts
        position: dict[str, int] = {}
        index = np.array([position.setdefault(text, len(position)) for text in texts], dtype=np.int64)
        if self.divide is not None:
            divided = self.divide(
                list(position),
                progress,
                role=role,
                batch_size=batch_size,
                batch_tokens=batch_tokens,
                normalize_embeddings=normalize_embeddings,
                precision=precision,
                scaled=scaled,
            )
            if divided is not None:
                return divided[index]
        table = self.tokenize(list(position), role)
        vectors = np.empty((len(table), self.dim), dtype=np.float32)  # (distinct, dim)
        unit, done = normalize_embeddings or (scaled and self.normalize), 0
        bar = Progress("encode", len(table), "texts") if show_progress_bar else contextlib.nullcontext()
        passes = self._passes(table, _TYPES[precision], budget=budget, most=batch_size, unit=unit)
        with bar as shown, contextlib.closing(passes):
            for part, computed in passes:
                vectors[part] = computed
                done += len(part)
                if shown is not None:
                    shown.reach(done)
                if progress is not None:
                    progress(done, len(table))
        if alone:
            return vectors[0]
        return vectors if len(vectors) == len(texts) else vectors[index]  # distinct texts are not copied

    def _pass_tokens(self, batch_size: int | None, batch_tokens: int | None) -> int:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if batch_tokens is None:
            batch_tokens = _BATCH_TOKENS if batch_size is None else _NO_LIMIT
        return batch_tokens * (_TIMES_ON_CUDA if self.backbone.device.type == "cuda" else 1)

    def _passes(
        self, table: TokenTable, dtype: torch.dtype, *, budget: int, most: int | None, unit: bool
    ) -> Generator[tuple[np.ndarray, np.ndarray], None, None]:
        """Places of the texts of each forward pass, ``(group,)``, and their vectors, ``(group, dim)``.

        `budget` and `most` are those of `Backbone.parts`; with `unit` the vectors have length 1.
        """
        layer = self.layer(training=False)
        with self._computing(dtype, tokens=len(table.ids)) as fused:
            passes = self.backbone.parts(
                table.take(np.arange(len(table))),
                self.pooling,
                budget=budget,
                most=most,
                threads=torch.get_num_threads() if fused else 1,
            )
            with contextlib.closing(passes):
                for part, pooled in passes:
                    pooled = self.behind(layer, pooled)  # (group, dim)
                    yield part, (_unit(pooled) if unit else pooled).cpu().numpy()

    @staticmethod
    def similarity(a: _Vectors, b: _Vectors) -> Tensor:
        """Cosines of every vector of `a` with every one of `b`, ``(a, b)``, float32, as a tensor on the CPU.

        Each is an array, a tensor or a list of vectors, ``(vectors, dim)``, of any length; one vector,
        ``(dim,)``, counts as a list of one. The cosine with a vector of zeros is 0. Equal to `similarity` of
        sentence-transformers where its function is the cosine, which is its default.
        """
        return _unit(_rows(a)) @ _unit(_rows(b)).T  # (a, b)

    @contextlib.contextmanager
    def _computing(self, dtype: torch.dtype, *, tokens: int) -> Iterator[bool]:
        """No dropout, no gradient, this precision, and the fastest layers for so many tokens.

        Whether these compute in `dtype` whatever autocast says, and so in any thread.
        """
        training, device = self.training, self.backbone.device.type
        self.eval()
        try:
            with (
                torch.no_grad(),
                torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16),
                packed(self.backbone.encoding, tokens=tokens, dtype=dtype) as fused,
            ):
                yield fused
        finally:
            self.train(training)

    @property
    def pools(self) -> str:
        """The pooling in use, of `encode` and of the saved model: without a head for training alone."""
        return "cls" if self.pooling.name == HEAD and not self.keep_head else self.pooling.name

    def save(self, folder: Path) -> None:
        """Write a model folder that this class, transformers and sentence-transformers load.

        Of a model with an adapter, only the adapter and the name of its base are saved. A model whose head is
        used in training alone is saved without it, with the pooling ``cls``. The folder must be empty, or not
        exist.
        """
        model, says = self.backbone.model, self.backbone.declared
        adapted = has_adapter(model)
        with quiet():
            export.write_model(
                folder,
                model=model,
                write_weights=partial(adapter.save if adapted else export.save_weights, model),
                base=adapter.describe(model) if adapted else None,
                tokenizer=self.backbone.tokenizer,
                pooling=replace(self.pooling, name=self.pools),
                layer=self.layer(training=False),
                dense=[module for module in self.dense if isinstance(module, Dense)],
                normalize=self.normalize,
                max_length=self.max_length,
                lowercase=says.lowercase,
                prompt=self.prompt,
                roles=self.roles,
                named=says.named if self.prompt == says.prompt else {},  # they went with the other prompt
            )

    def scale(self, vectors: Tensor) -> Tensor:
        """Pooled vectors, ``(texts, dim)``, as the model finally gives them: with `normalize` of length 1."""
        return _unit(vectors) if self.normalize else vectors

    def layer(self, *, training: bool) -> nn.Linear | None:
        """What stands between pooled vectors and tanh: the model's pooler, or a head where that is used."""
        if self.pooling.name == POOLER:
            return pooler_layer(self.backbone.model)
        return self.head if training or self.keep_head else None


def _unit(vectors: Tensor) -> Tensor:
    return nn.functional.normalize(vectors, dim=-1)


def _rows(vectors: _Vectors) -> Tensor:
    """Any form of vectors as ``(vectors, dim)``."""
    if not isinstance(vectors, np.ndarray | Tensor):
        vectors = torch.stack([torch.as_tensor(vector) for vector in vectors])
    return torch.atleast_2d(torch.as_tensor(vectors).detach().to("cpu", torch.float32))


def _choose(config: PoolingConfig, backbone: Backbone) -> Pooling:
    skips = backbone.declared.skip_prompt if config.skip_prompt is None else config.skip_prompt
    if config.name != "auto":
        return Pooling(config.name, config.first_layer, config.padded_to, skips and config.name in SKIPPING)
    says, lacks = backbone.declared, None
    if says.foreign:
        lacks = f"pass vectors through {', '.join(says.foreign)}"
    elif says.pooling not in (None, *POOLINGS):
        lacks = f"ask for {says.pooling!r}"
    choice = f"choose pooling= one of {', '.join(POOLINGS)}"
    if lacks is not None:
        raise ConfigError(
            f"pooling.name: the model's own files {lacks}, which embedrun lacks; to do without, {choice}"
        )
    try:
        if says.pooling == HEAD and says.head is None:
            raise ValueError(f"pooling.name: {HEAD} needs the folder of its layer as head, got none")
        return Pooling(says.pooling or "mean", says.first_layer, says.padded_to, skips)
    except ValueError as fault:
        raise DataError(
            f"{backbone.origin['name']}: embedrun.json contradicts itself: {fault}; or {choice}"
        ) from fault
