"""The map of dropout samples: whether a model tells related sentences apart (ArcCSE Figure 1)."""

import numpy as np

# Ours, because the figure's own sentences are not given in the paper's text. As there, the second is closer
# to the first than the third is.
RELATED = (
    "A cook is cutting tomatoes in a small kitchen.",
    "A chef slices tomatoes in the kitchen.",
    "A cook is washing tomatoes in the garden.",
)
MOST = 6  # sentences whose points can be told apart without colour
_PERPLEXITY = 30.0  # of van der Maaten and Hinton's 5 to 50; fewer points need less


def spread(samples: np.ndarray) -> float:
    """How far the samples of a sentence are from its first one, relative to the largest number in them.

    Args:
        samples: ``(sentences, draws, dim)``.

    Returns:
        The largest difference of one number; 0 or nearly so for a model without dropout.
    """
    largest = float(np.abs(samples).max())
    return float(np.abs(samples - samples[:, :1]).max()) / largest if largest > 0 else 0.0


def flatten(samples: np.ndarray) -> np.ndarray:
    """The samples as points of a plane, where neighbours stay neighbours, ``(sentences, draws, 2)``.

    Each sample is scaled to length 1, then t-SNE (van der Maaten and Hinton 2008) places all of them, always
    in the same way. Distances between far points and the unit of the axes mean nothing. ArcCSE gives neither
    the number of samples nor the options of its t-SNE; the perplexity here is 30, or a third of the other
    points where that is less.

    Args:
        samples: ``(sentences, draws, dim)``, at least four in all.
    """
    from sklearn.manifold import TSNE  # here, because it takes a second to import

    sentences, draws, dim = samples.shape
    flat = samples.reshape(-1, dim).astype(np.float64)  # (points, dim)
    length = np.linalg.norm(flat, axis=-1, keepdims=True)  # (points, 1)
    flat = flat / np.where(length > 0, length, 1)
    perplexity = min(_PERPLEXITY, (len(flat) - 1) / 3)
    method = TSNE(perplexity=perplexity, init="pca", random_state=0, n_jobs=1)
    return method.fit_transform(flat).reshape(sentences, draws, 2)
