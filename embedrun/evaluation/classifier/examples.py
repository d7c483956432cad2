"""The rows of a transfer task as SentEval gives them to a classifier: features by class, in its order."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.source import Encode
from embedrun.rows import Rows


@dataclass(frozen=True)
class Examples:
    """Rows with a class.

    Args:
        features: float32, ``(rows, dim)``, of pairs ``(pairs, 2 × dim)``.
        labels: class of each row from 0, int64, ``(rows,)``.
        order: place of each in the data set's own order, int64, ``(rows,)``.
    """

    features: np.ndarray
    labels: np.ndarray
    order: np.ndarray


def examples(rows: Rows, encode: Encode) -> Examples:
    """Encode rows and put them in SentEval's order.

    SentEval sorts by the number of words, of pairs first by that of the left text; then by class. Rows alike
    in all of these stay in order. It is the order that folds and minibatches are drawn from. Texts are their
    words with one space between them; an empty text stays one.

    The features of a pair are :math:`|u - v|` and :math:`u v`, elementwise.

    Args:
        rows: of form `text` or `pair`, with a `category`.
        encode: sentences to vectors.
    """
    words = {view: [text.split() for text in texts] for view, texts in rows.texts.items()}
    labels = rows.targets["category"].astype(np.int64)  # (rows,)
    lengths = [np.array([len(text) for text in texts]) for texts in words.values()]  # (rows,) each
    order = np.lexsort((labels, *reversed(lengths)))  # (rows,); the last key counts most
    vectors = [
        _vectors([" ".join(text) for text in texts], rows.texts[view], encode)
        for view, texts in words.items()
    ]
    if rows.form == "pair":
        left, right = vectors  # (pairs, dim) each
        features = torch.cat([(left - right).abs(), left * right], dim=1)  # (pairs, 2 × dim)
    else:
        (features,) = vectors
    return Examples(features.numpy()[order], labels[order], order)


def _vectors(texts: list[str], given: list[str], encode: Encode) -> Tensor:
    """Vectors of texts, ``(texts, dim)``; the few that are not as given go by themselves.

    The given texts may have been encoded before, and are then looked up.
    """
    changed = [place for place, text in enumerate(texts) if text != given[place]]
    vectors = encode(given)  # (texts, dim)
    if changed:
        vectors = vectors.clone()
        vectors[changed] = encode([texts[place] for place in changed])
    return vectors
