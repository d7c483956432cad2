"""Sum weighted loss terms."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from embedrun import family
from embedrun.loss.cosine import widen
from embedrun.loss.terms import needs

__all__ = ["Mix", "needs"]


class Mix(nn.Module):
    r"""A weighted sum of loss terms, :math:`L = \sum_k w_k L_k` (AnglE Eq. 8; other papers sum alike).

    Everything is computed in float32 or wider: embeddings in half precision are widened first, and an
    autocast around the call does not reach the terms.

    Args:
        terms: options by key. The key is the name of a term; or `name` among the options is, so that one
            term can be there twice. `weight` is unitless, >= 0, 1 if left out; a term of weight 0 is
            neither made nor computed. All other options are the term's own.

    Raises:
        KeyError: if there is no term of that name.
        TypeError: if a term does not have one of its options.
        ValueError: if a weight is negative or not finite, if no term is left, or if a term refuses the value
            of an option.
    """

    def __init__(self, terms: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self.weights: dict[str, float] = {}
        modules: dict[str, nn.Module] = {}
        for key, given in terms.items():
            options = dict(given)
            name = options.pop("name", key)
            weight = options.pop("weight", 1.0)
            if not 0 <= weight < math.inf:
                raise ValueError(f"Mix: weight of {key} must be >= 0 and finite, got {weight}")
            if weight > 0:
                self.weights[key] = weight
                modules[key] = family.find("loss", name)(**options)
        if not modules:
            raise ValueError("Mix: no term has a weight above 0; give at least one term")
        # Registered as modules, because a term may have weights of its own to train.
        self.terms = nn.ModuleDict(modules)

    def forward(
        self, embeddings: Mapping[str, Tensor], targets: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar total, and the unweighted value of each term by key, detached.

        Args:
            embeddings: by view (`left`, `right`, `negative`, `text`), each ``(rows, dim)``, any floating
                type. Views that no term needs may be there.
            targets: by name, each ``(rows,)``; the same holds.

        Raises:
            ValueError: if a term needs a view or a target that is not there.
        """
        device = next(iter(embeddings.values())).device.type
        with torch.autocast(device, enabled=False):
            wide = {view: widen(vectors) for view, vectors in embeddings.items()}  # each (rows, dim)
            values = {
                key: term(**_arguments(key, term, wide, targets)) for key, term in self.terms.items()
            }  # each a scalar
            total = torch.stack([self.weights[key] * value for key, value in values.items()]).sum()
        return total, {key: value.detach() for key, value in values.items()}


def _arguments(
    key: str, term: nn.Module, embeddings: Mapping[str, Tensor], targets: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """What one term is called with: all that it needs, and the optional targets that are there."""
    views, required, optional = needs(type(term))
    for kind, wanted, present in (("view", views, embeddings), ("target", required, targets)):
        for name in wanted:
            if name not in present:
                raise ValueError(f"Mix: {key} needs the {kind} {name}, got {', '.join(present) or 'none'}")
    chosen = [name for name in (*required, *optional) if name in targets]
    return {view: embeddings[view] for view in views} | {name: targets[name] for name in chosen}
