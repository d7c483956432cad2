"""Sum weighted loss terms."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax, softmax

from embedrun import family
from embedrun.config import LayersConfig
from embedrun.files import Plain
from embedrun.loss.cosine import normalize, widen
from embedrun.loss.terms import Needs, Pass, given, needs, passes, reads_tokens, source, with_negatives


class Mix(nn.Module):
    r"""A weighted sum of loss terms, :math:`L = \sum_k w_k L_k` (AnglE Eq. 8, ArcCSE Eq. 5, RAOE Eq. 1).

    Everything is computed in float32 or wider: embeddings in half precision are widened first, and an
    autocast around the call does not reach the terms.

    Args:
        terms: options by key. The key is the name of a term; or `name` among the options is, so that one
            term can be there twice. `weight` is unitless, >= 0, 1 if left out; a term of weight 0 is
            neither made nor computed. `views` says which views of the rows the term reads, and how they go
            through the encoder (:func:`~embedrun.loss.terms.passes`). All other options are the term's own.
        dim: length of a sentence vector, for terms with weights of their own.
        teacher_dims: length of each teacher's vectors, for terms that read them.
        negatives: how many numbered hard negatives the rows have in place of `negative`.
        cuts: weights by how many of the first numbers of each vector the terms see; empty: all numbers. The
            total is then the weighted sum over cuts, of vectors that are scaled to length 1 after the cut
            (Kusupati et al. 2022, Matryoshka Representation Learning, Eq. 1), and so is the value of a term.
        head: of the model, which guesses word pieces, for terms that read tokens.
        layers: how the vectors of inner layers count, which stand before those of the last, `dim` numbers
            each. With *n* of them, the total is :math:`L_{last} + \frac{w}{n} \sum_l a_l L_l + d T \sum_l
            \mathrm{KL}(\mathrm{softmax}(z_{last} / T) \,\|\, \mathrm{softmax}(z_l / T))`, where the last
            layer has no gradient from the divergence, a mean over texts (Li et al. 2024, 2D Matryoshka
            Sentence Embeddings, arXiv:2402.14776). The values of terms are those of the last layer.

    Raises:
        KeyError: if there is no term of that name.
        TypeError: if a term does not have one of its options.
        ValueError: if a weight is negative or not finite, if no term is left, or if a term refuses the value
            of an option.
    """

    def __init__(
        self,
        terms: Mapping[str, Plain],
        *,
        dim: int = 1,
        teacher_dims: Sequence[int] = (),
        negatives: int = 0,
        cuts: Mapping[int, float] | None = None,
        layers: LayersConfig | None = None,
        head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.dim, self.layers = dim, layers
        self.cuts = dict(cuts or {})
        self.weights: dict[str, float] = {}
        self.needs: dict[str, Needs] = {}
        self.ways: dict[str, dict[str, Pass]] = {}
        self.on_tokens: list[str] = []  # keys of the terms of which `forward` knows nothing
        modules: dict[str, nn.Module] = {}
        for key, options in terms.items():
            rest = dict(options)
            name, weight, views = rest.pop("name", key), rest.pop("weight", 1.0), rest.pop("views", None)
            if not 0 <= weight < math.inf:
                raise ValueError(f"Mix: weight of {key} must be >= 0 and finite, got {weight}")
            if weight > 0:
                cls = family.find("loss", name)
                filled = given(cls, {"dim": dim, "teacher_dims": teacher_dims, "head": head})
                self.weights[key], modules[key] = weight, cls(**rest, **filled)
                if reads_tokens(modules[key]):
                    self.on_tokens.append(key)
                    continue
                # Once: reading a signature takes as long as a small sum.
                self.needs[key] = needs(modules[key])
                self.ways[key] = with_negatives(modules[key], passes(modules[key], views), negatives)
        if not modules:
            raise ValueError("Mix: no term has a weight above 0; give at least one term")
        # Registered as modules, because a term may have weights of its own to train.
        self.terms = nn.ModuleDict(modules)

    def forward(
        self, embeddings: Mapping[str, Tensor], targets: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar total, and the unweighted value of each term of vectors by key.

        Args:
            embeddings: by the key of the pass, which is the name of the view unless `views` says otherwise,
                each ``(rows, dim)``, any floating type. Those that no term needs are ignored.
            targets: by name, each ``(rows, ...)``; the same holds.

        Raises:
            ValueError: if a term needs a view or a target that is missing.
        """
        with torch.autocast(_device(embeddings), enabled=False):
            wide = {key: widen(vectors) for key, vectors in embeddings.items()}  # each (rows, dim)
            *inner, last = self._by_layer(wide)
            total, values = self._of_layer(last, targets)
            if self.layers is not None and inner:
                total = total + self._of_inner(self.layers, inner, last, targets)
        return total, values

    def _of_layer(
        self, vectors: Mapping[str, Tensor], targets: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        values = reduce(_sum, (self._values(some, weight, targets) for some, weight in self._cut(vectors)))
        return reduce(add, (self.weights[key] * value for key, value in values.items())), values

    def _of_inner(
        self,
        config: LayersConfig,
        inner: Sequence[Mapping[str, Tensor]],
        last: Mapping[str, Tensor],
        targets: Mapping[str, Tensor],
    ) -> Tensor:
        goal = softmax(torch.cat([*last.values()]).detach() / config.temperature, dim=-1)  # (texts, dim)
        total = goal.new_zeros(())
        for place, vectors in enumerate(inner, 1):
            share = 1 / (1 + math.log(1 + place * config.every)) if config.weighting == "log" else 1.0
            if config.weight:
                total = total + config.weight * share / len(inner) * self._of_layer(vectors, targets)[0]
            if config.divergence:
                own = log_softmax(torch.cat([*vectors.values()]) / config.temperature, dim=-1)
                scale = config.divergence * config.temperature
                total = total + scale * kl_div(own, goal, reduction="batchmean")
        return total

    def _by_layer(self, vectors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """The vectors of each layer, ``(rows, dim)`` each, the last one last."""
        if self.layers is None:
            return [dict(vectors)]
        parts = {key: whole.split(self.dim, dim=1) for key, whole in vectors.items()}
        many = len(next(iter(parts.values())))
        return [{key: part[place] for key, part in parts.items()} for place in range(many)]

    def _cut(self, vectors: Mapping[str, Tensor]) -> Iterator[tuple[Mapping[str, Tensor], float]]:
        """The vectors, ``(rows, dim)`` each, cut in each way, with the weight of the cut."""
        if not self.cuts:
            yield vectors, 1.0
        for dim, weight in self.cuts.items():
            yield {key: normalize(whole[:, :dim]) for key, whole in vectors.items()}, weight

    def _values(
        self, vectors: Mapping[str, Tensor], weight: float, targets: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        inputs = {key: self._inputs(key, vectors, targets) for key in self.needs}
        return {key: weight * self.terms[key](**given) for key, given in inputs.items()}

    def gradient_shares(
        self, embeddings: Mapping[str, Tensor], values: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        r"""Each term's share of the gradient at the embeddings, 0 to 1; none where there is one term.

        `gradient_share/<term>` is :math:`\|g_k\| / \sum_j \|g_j\|` with :math:`g_k` the gradient of
        :math:`w_k L_k` at all embeddings. `values` are those of `forward`, whose graph is kept.
        """
        leaves, norms = list(embeddings.values()), {}
        if len(values) < 2:
            return {}
        for key, value in values.items():
            gradients: Sequence[Tensor | None] = ()
            if value.requires_grad:  # else a constant, as of a term that has nothing to compare
                weighted = self.weights[key] * value
                gradients = torch.autograd.grad(weighted, leaves, retain_graph=True, allow_unused=True)
            norms[key] = nn.utils.get_total_norm([gradient for gradient in gradients if gradient is not None])
        whole = reduce(add, norms.values()).clamp(min=1e-30)
        return {f"gradient_share/{key}": norm / whole for key, norm in norms.items()}

    @torch.no_grad()
    def signals(self, embeddings: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Shares of comparisons, of the terms that compare, each a scalar on the device of the embeddings.

        `active/<term>` is the share of comparisons that count, of all that the batch could have; where a
        term compares each row with negatives, it is the share of rows that have any. `violated/<term>` is
        the share of the active ones that are in the wrong order, a margin included. In a large batch only the
        first 512 rows are looked at. Both arguments are those of `forward`.
        """
        shares: dict[str, Tensor] = {}
        with torch.autocast(_device(embeddings), enabled=False):
            *_, wide = self._by_layer({key: widen(vectors) for key, vectors in embeddings.items()})
            for key in self.needs:
                if (comparisons := getattr(self.terms[key], "comparisons", None)) is None:
                    continue
                active, violated = comparisons(**self._inputs(key, wide, targets))
                shares |= {f"active/{key}": active, f"violated/{key}": violated}
        return shares

    def _inputs(
        self, key: str, embeddings: Mapping[str, Tensor], targets: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The arguments of one term: all that it needs, and the optional inputs that are there."""
        needed, ways = self.needs[key], self.ways[key]
        there = {name: embeddings[way.key] for name, way in ways.items() if way.key in embeddings}
        _require(key, "view", {name: ways[name].key for name in needed.views}, embeddings)
        wanted = {name: source(name, ways) for name in needed.targets}
        _require(key, "target", wanted, targets)
        optional = {name: source(name, ways) for name in needed.optional_targets}
        both = wanted | {name: there for name, there in optional.items() if there in targets}
        return there | {name: targets[target] for name, target in both.items()}


def _sum(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key: value + other[key] for key, value in one.items()}


def mix_of(mix: "Mix | nn.ModuleDict", part: str) -> Mix:
    """The mix of a part of a mixture of data sets; of one data set, whose part is '', the mix itself."""
    return mix[part] if isinstance(mix, nn.ModuleDict) else mix  # type: ignore[return-value]


def _require(key: str, kind: str, wanted: Mapping[str, str], present: Mapping[str, Tensor]) -> None:
    for name in wanted.values():
        if name not in present:
            raise ValueError(f"Mix: {key} needs the {kind} {name}, got {', '.join(present) or 'none'}")


def _device(embeddings: Mapping[str, Tensor]) -> str:
    return next((vectors.device.type for vectors in embeddings.values()), "cpu")
