"""The gated linear unit, which stands where other models add the input itself."""

from torch import Tensor, nn


class Gate(nn.Module):
    r"""The gated linear unit that is RAN's residual: :math:`(Ax + a) \odot \sigma(Bx + b)`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, vectors: Tensor) -> Tensor:
        """Of the shape of `vectors`, ``(..., dim)``."""
        return self.linear(vectors) * self.gate(vectors).sigmoid()
