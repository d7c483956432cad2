"""The shape of a RAN, as its config.json holds it."""

from typing import Any

from transformers import PreTrainedConfig


class RanConfig(PreTrainedConfig):
    """Sizes of a RAN.

    Args:
        vocab_size: word pieces.
        hidden_size: dimensions of a token vector and of the cell.
        num_hidden_layers: recurrent layers.
        num_attention_heads: heads of the attention within a window; the memory review has one.
        head_size: dimensions of a head, even; None: `hidden_size` by `num_attention_heads`. Heads and their
            size need not multiply to `hidden_size`.
        window: tokens of a window.
        min_window: tokens; a shorter last window joins the one before it.
        dropout: probability, everywhere.
        memory_review: whether each layer ends with the memory review, or with a layer norm in its place.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: added to a variance.
        pad_token_id: word piece whose vector starts, and stays, at 0.
        options: of every configuration of transformers.

    Raises:
        ValueError: for sizes that do not fit each other.
    """

    model_type = "embedrun_ran"

    def __init__(
        self,
        *,
        vocab_size: int = 30522,
        hidden_size: int = 768,
        num_hidden_layers: int = 7,
        num_attention_heads: int = 8,
        head_size: int | None = 128,
        window: int = 256,
        min_window: int = 16,
        dropout: float = 0.1,
        memory_review: bool = True,
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-6,
        pad_token_id: int = 0,
        **options: Any,
    ) -> None:
        if head_size is None and hidden_size % num_attention_heads:
            raise ValueError(
                f"RAN: {num_attention_heads} heads do not divide a width of {hidden_size}; choose a divisor, "
                "or give head_size"
            )
        size = hidden_size // num_attention_heads if head_size is None else head_size
        if size < 2 or size % 2:
            raise ValueError(f"RAN: a head needs an even number of dimensions to be rotated, got {size}")
        if not 1 <= min_window <= window:
            raise ValueError(f"RAN: min_window must be from 1 to window, got {min_window} and {window}")
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.head_size = size
        self.window = window
        self.min_window = min_window
        self.dropout = dropout
        self.memory_review = memory_review
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.pad_token_id = pad_token_id
        super().__init__(**options)
