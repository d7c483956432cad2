"""Guess hidden word pieces from those around them."""

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedrun.loss.cosine import widen


class Mlm(nn.Module):
    r"""Masked-language modelling, beside any mix or alone.

    Of the word pieces of every text, special ones left out, a share is chosen anew in each batch: 80 % of
    these are replaced by the mask token, 10 % by a random piece, and 10 % are left as they are. With
    :math:`h_t` the hidden state of the last layer at a chosen place and :math:`w_t` the piece that stood
    there,

    .. math:: L = -\frac{1}{|H|} \sum_{t \in H} \log \mathrm{softmax}(\mathrm{head}(h_t))_{w_t}

    over the chosen places :math:`H` of all texts of the batch; 0 where there are none.

    Source: Devlin et al. 2019 (BERT), Sec. 3.1, Task 1; beside contrast, Gao et al. 2021 (SimCSE),
    the rows "w/ MLM" of its transfer tasks.
    The head is that of the model's own masked-language class, with the weights of its files where they have
    them; it is trained with the rest, and is not part of the saved encoder. Departure from SimCSE's code: the
    last layer of the head shares its weights with the embedding where the model's class shares them.

    Args:
        masked: share of the word pieces that are chosen, unitless, above 0 and below 1.
        head: hidden states, ``(places, dim)``, to a score of each word piece, ``(places, vocabulary)``.

    Raises:
        ValueError: if ``masked`` is not above 0 and below 1.
    """

    reads_tokens = True

    def __init__(self, *, masked: float = 0.15, head: nn.Module | None = None) -> None:
        super().__init__()
        if not 0 < masked < 1:
            raise ValueError(f"Mlm: masked must be above 0 and below 1, got {masked}")
        self.masked, self.head = masked, head

    def forward(self, states: Tensor, pieces: Tensor) -> Tensor:
        """The scalar loss; of a part of a batch, the mean over its places.

        Args:
            states: of the last layer, ``(places, dim)``.
            pieces: that stood there, int64, ``(places,)``.
        """
        assert self.head is not None
        scores = widen(self.head(states))  # (places, vocabulary)
        return cross_entropy(scores, pieces, reduction="sum") / max(len(pieces), 1)

    def compared(self, rows: int, views: object) -> str:
        """What is guessed, in words."""
        return f"{100 * self.masked:g} % of the word pieces, guessed from the others"
