"""The geometry of vectors: alignment, uniformity, anisotropy, saturation, and the spread under dropout."""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from embedrun.evaluation.intervals import interval, mean_draws
from embedrun.evaluation.scores import Encode, Progress, Scores, Source, cosines
from embedrun.rows import Rows

# Ours, because the figure's own sentences are not given in the paper's text. As there, the second is closer
# to the first than the third is.
RELATED = (
    "A cook is cutting tomatoes in a small kitchen.",
    "A chef slices tomatoes in the kitchen.",
    "A cook is washing tomatoes in the garden.",
)
MOST = 6  # sentences whose points can be told apart without colour
_HIGHEST = 5.0  # gold score of STS-B
_PERPLEXITY = 30.0  # of van der Maaten and Hinton's 5 to 50; fewer points need less


def spread(samples: np.ndarray) -> float:
    """How far the samples of a sentence, ``(sentences, draws, dim)``, are from its first one.

    The largest difference of one number, relative to the largest number in them; 0 or nearly so without
    dropout.
    """
    largest = float(np.abs(samples).max())
    return float(np.abs(samples - samples[:, :1]).max()) / largest if largest > 0 else 0.0


def flatten(samples: np.ndarray) -> np.ndarray:
    """Samples, ``(sentences, draws, dim)``, as points of a plane by t-SNE, ``(sentences, draws, 2)``.

    Each sample is scaled to length 1, then t-SNE (van der Maaten and Hinton 2008) places all of them,
    deterministically and so that neighbours stay neighbours. Distances between far points and the unit of the
    axes mean nothing. ArcCSE gives neither the number of samples nor the options of its t-SNE; the perplexity
    here is 30, or a third of the other points where that is less. There must be at least four samples in all.
    """
    from sklearn.manifold import TSNE  # here, because it takes a second to import

    sentences, draws, dim = samples.shape
    flat = samples.reshape(-1, dim).astype(np.float64)  # (points, dim)
    length = np.linalg.norm(flat, axis=-1, keepdims=True)  # (points, 1)
    flat = flat / np.where(length > 0, length, 1)
    perplexity = min(_PERPLEXITY, (len(flat) - 1) / 3)
    method = TSNE(perplexity=perplexity, init="pca", random_state=0, n_jobs=1)
    return method.fit_transform(flat).reshape(sentences, draws, 2)


_BLOCK = 1024  # rows of the matrix of all cosines that are held at a time


def alignment(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    r"""Squared distance of the two vectors of each pair, :math:`\|u - v\|^2` in [0, 4], ``(pairs,)``.

    Its mean over pairs that mean the same is the alignment of Wang and Isola 2020, arXiv:2005.10242,
    Section 4.1, with their α = 2. Smaller is better. Both inputs are of length 1, ``(pairs, dim)``.
    """
    return np.square(left - right).sum(axis=-1)


def uniformity(vectors: np.ndarray) -> float:
    r"""How evenly vectors cover the sphere, in [-8, 0]; smaller is more even.

    .. math:: \log \frac{2}{n (n - 1)} \sum_{i < j} e^{-2 \|u_i - u_j\|^2}

    Source: Wang and Isola 2020, arXiv:2005.10242, Section 4.1, with their t = 2. The vectors are of length 1,
    ``(vectors, dim)``; NaN for fewer than two.
    """
    count = len(vectors)
    if count < 2:
        return math.nan
    total = 0.0
    for start in range(0, count, _BLOCK):
        block = vectors[start : start + _BLOCK]
        cosine = block @ vectors[start:].T  # (block, vectors from start on)
        # -2 |u - v|² = 4 (cos - 1). Above the diagonal stands each pair once.
        total += float(np.triu(np.exp(4 * (cosine - 1)), k=1).sum())
    return math.log(2 * total / (count * (count - 1)))


def anisotropy(vectors: np.ndarray) -> float:
    r"""Mean cosine of all pairs of vectors, in [-1 / (n - 1), 1]; 0 where no direction is preferred.

    Exact and in linear time: :math:`\sum_{i \ne j} u_i u_j = \|\sum_i u_i\|^2 - n`. Ethayarajh 2019,
    arXiv:1909.00512, estimates the same mean, of words, from a sample of pairs. The vectors are of length 1,
    ``(vectors, dim)``; NaN for fewer than two.
    """
    count = len(vectors)
    if count < 2:
        return math.nan
    return float((np.square(vectors.sum(axis=0)).sum() - count) / (count * (count - 1)))


def gradient(cosine: np.ndarray) -> np.ndarray:
    r"""How fast the cosine of each pair changes with its angle, in [0, 1], ``(pairs,)``.

    .. math:: |d \cos θ / d θ| = \sqrt{1 - \cos^2 θ}
    """
    return np.sqrt(1 - np.square(np.clip(cosine, -1, 1)))


class Geometry:
    """Alignment, uniformity, anisotropy and saturation on STS-B, and the map of dropout samples.

    Vectors are scaled to length 1 first. Keys, none of them × 100; `geometry_dev/...` for the dev split:

    - `geometry/alignment`: mean squared distance over the pairs whose gold score is above `positive_above`.
    - `geometry/uniformity` and `geometry/anisotropy`: over all pairs of the distinct sentences of the split.
    - `geometry/saturation`: share of the pairs in the saturation zone of the cosine, where its gradient is
      near zero: here ``|cosine| >= saturated_from``, both ends of the curve.
    - `geometry/triplet_order`, with the option of this name: how often a sentence of five words or more is
      nearer to itself without a fifth of its words than without two fifths (:func:`shorter`).
    - `geometry/gradient`: mean of ``|d cos θ / d θ|`` over the pairs; it needs no such limit.
    - `geometry/wasserstein`: distance of the distribution of the cosines from that of the gold scores, 0 to 5
      scaled to 0 to 1; mean of ``|sorted cosine - sorted gold score|``. AnglE, Figure 5, shows both by eye.

    Sources: Wang and Isola 2020; Gao et al. 2021 (SimCSE), Section 3, footnote 3, for STS-B pairs with a
    score higher than 4 as positives and all of its sentences as data. Departures: SimCSE takes the whole of
    STS-B, and we one split; a sentence of several pairs counts once. Li and Li 2023 (AnglE),
    Figure 1, shows the saturation zones without a limit, and Section 4.5 names gold scores of 0 to 1 and 4
    to 5; at which cosine the zone starts is left open, and 0.9, a gradient of 0.44, is our choice.

    A sentence whose vector is zero or not finite has no direction: it is left out with its pairs, and
    `left_out_sentences` of the notes says how many there are. A score for which no row is left is NaN.

    Args:
        split: of STS-B.
        positive_above: a pair is positive if its gold score, 0 to 5, is above this.
        saturated_from: where the saturation zone of ``|cosine|`` starts, > 0 and < 1.
        related: sentences of the map of dropout samples (ArcCSE Figure 1), 2 to 6; null: three of ours.
        dropout_samples: of each of them, at least 2; 0: no map.
        triplet_order: whether the shortened sentences are encoded, too.
    """

    by_row = True

    def __init__(
        self,
        *,
        split: Literal["test", "dev"] = "test",
        positive_above: float = 4.0,
        saturated_from: float = 0.9,
        related: list[str] | None = None,
        dropout_samples: int = 0,
        triplet_order: bool = False,
    ) -> None:
        if not 0 < saturated_from < 1:
            raise ValueError(f"Geometry: saturated_from must be > 0 and < 1, got {saturated_from}")
        if not 0 <= positive_above < 5:
            raise ValueError(f"Geometry: positive_above must be >= 0 and < 5, got {positive_above}")
        if dropout_samples < 0 or dropout_samples == 1:
            raise ValueError(
                f"Geometry: dropout_samples must be 0 (no map) or at least 2, got {dropout_samples}"
            )
        self.related = list(RELATED if related is None else related)
        if not 2 <= len(set(self.related)) == len(self.related) <= MOST:
            raise ValueError(
                f"Geometry: related needs 2 to {MOST} different sentences, got {len(self.related)} "
                f"with {len(set(self.related))} different"
            )
        self.split = split
        self.positive_above, self.saturated_from = positive_above, saturated_from
        self.dropout_samples, self.triplet_order = dropout_samples, triplet_order

    def sources(self) -> dict[str, Source]:
        """The split of STS-B."""
        return {"stsb": Source("stsb", self.split)}

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Scores, their intervals where they are means over rows, and the cosine of each pair.

        `rows` has the split under `stsb`. `progress` is not called: all is done in a second.
        """
        pairs = rows["stsb"]
        units, first, second = _directions(pairs, encode)
        kept = (first >= 0) & (second >= 0)  # (rows,)
        left, right = units[first[kept]], units[second[kept]]  # (pairs, dim) each
        gold = pairs.targets["score"][kept]  # (pairs,)
        cosine = np.clip((left * right).sum(axis=-1), -1, 1)  # (pairs,)
        positive = gold > self.positive_above  # (pairs,)
        suite = "geometry" if self.split == "test" else f"geometry_{self.split}"
        means = {
            f"{suite}/alignment": alignment(left, right)[positive],
            f"{suite}/saturation": (np.abs(cosine) >= self.saturated_from).astype(float),
            f"{suite}/gradient": gradient(cosine),
        }
        if self.triplet_order:
            means[f"{suite}/triplet_order"] = ordered(list(dict.fromkeys(pairs.sentences())), encode)
        distance = np.abs(np.sort(cosine) - np.sort(gold) / _HIGHEST)  # (pairs,)
        both = {f"{suite}/wasserstein": float(distance.mean()) if len(distance) else math.nan}
        both |= {f"{suite}/uniformity": uniformity(units), f"{suite}/anisotropy": anisotropy(units)}
        scores = {key: float(values.mean()) if len(values) else math.nan for key, values in means.items()}
        columns = {"gold": gold.tolist(), "score": cosine.tolist()}
        return Scores(
            scores | both,
            f"{suite}/alignment",
            {f"{suite}_stsb": columns} if len(gold) else {},
            {key: interval(mean_draws(values)) for key, values in means.items() if len(values)},
            notes={
                "sentences": len(units),
                "positive_pairs": int(positive.sum()),
                "saturated_from": self.saturated_from,
                "left_out_sentences": len(set(pairs.sentences())) - len(units),
            },
        )


_WORDS = 5  # of a sentence that can lose a fifth of them


def shorter(text: str, random: np.random.Generator) -> tuple[str, str]:
    """A sentence without a contiguous fifth of its words, and without two fifths that hold these.

    Source: ArcCSE (Zhang et al. 2022), Section 3.2 and Figure 1; the sentence entails its masked copies less
    and less. Departure: the words go, as not every model has a mask token.
    """
    words = text.split()
    few, many = round(0.2 * len(words)), round(0.4 * len(words))
    outer = int(random.integers(len(words) - many + 1))
    inner = outer + int(random.integers(many - few + 1))
    cuts = ((inner, few), (outer, many))
    first, second = (" ".join([*words[:begin], *words[begin + length :]]) for begin, length in cuts)
    return first, second


def ordered(sentences: list[str], encode: Encode) -> np.ndarray:
    """1 where both copies of a sentence of five words or more are in the right order, else 0, ``(kept,)``."""
    random = np.random.default_rng(0)
    triples = [(text, *shorter(text, random)) for text in sentences if len(text.split()) >= _WORDS]
    if not triples:
        return np.empty(0)
    whole, first, second = (list(column) for column in zip(*triples, strict=True))
    return (cosines(encode, whole, first) > cosines(encode, whole, second)).astype(float)


def _directions(pairs: Rows, encode: Encode) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct sentences' vectors at length 1, float64, ``(sentences, dim)``, and which are each pair's.

    The latter are the indices of the left and of the right sentences, int64, ``(rows,)`` each; -1 for a
    sentence that has no direction and is left out.
    """
    sentences = list(dict.fromkeys(pairs.sentences()))
    vectors = encode(sentences).double().numpy()  # (distinct, dim)
    length = np.linalg.norm(vectors, axis=-1)  # (distinct,)
    usable = np.isfinite(length) & (length > 0)  # (distinct,)
    number = np.where(usable, np.cumsum(usable) - 1, -1)  # (distinct,)
    place = dict(zip(sentences, number.tolist(), strict=True))
    left, right = (
        np.array([place[text] for text in pairs.texts[view]], dtype=np.int64) for view in ("left", "right")
    )
    return vectors[usable] / length[usable, None], left, right
