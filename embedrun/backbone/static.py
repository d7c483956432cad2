"""Static word vectors as a backbone: a word has one vector, whatever stands around it.

Importing this module tells transformers of it, as `embedrun.backbone.ran` does for a RAN.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from embedrun.console import Progress
from embedrun.errors import DataError

_LONGEST = 100_000  # tokens; a mean has no longest text, and tokenizers ask for a number
_PAD, _UNKNOWN = "[PAD]", "[UNK]"


class StaticConfig(PreTrainedConfig):
    """Sizes of a table of word vectors: `vocab_size` words, the first padding, of `hidden_size` numbers."""

    model_type = "embedrun_static"

    vocab_size: int = 30522
    hidden_size: int = 300
    num_hidden_layers: int = 0
    num_attention_heads: int = 1
    pad_token_id: int | None = 0


class StaticModel(PreTrainedModel):
    """Gives each token the vector of its word; the mean over a text is the average of its word vectors.

    Source: GloVe (Pennington et al. 2014), as Reimers and Gurevych 2019 average it. Padding and unknown words
    have the vector 0, which leaves the direction of a mean as it is.
    """

    config_class = StaticConfig
    config: StaticConfig
    base_model_prefix = "static"
    main_input_name = "input_ids"
    _supports_sdpa = True

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The table of word vectors."""
        return self.tokens

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: object
    ) -> BaseModelOutput:
        """`last_hidden_state`, ``(texts, tokens, dim)``; `input_ids` are ``(texts, tokens)``."""
        vectors = self.tokens(input_ids)  # (texts, tokens, dim)
        return BaseModelOutput(last_hidden_state=vectors, hidden_states=(vectors,))


AutoConfig.register(StaticConfig.model_type, StaticConfig, exist_ok=True)
AutoModel.register(StaticConfig, StaticModel, exist_ok=True)


def convert(file: Path, folder: Path) -> tuple[int, int]:
    """Make a model folder of a text file of word vectors; the number of words and of dimensions.

    A line is a word and its numbers, with blanks between them, as GloVe and word2vec write them; a first line
    with the two sizes is skipped. Texts are lower-cased where no word has a capital, and cut at blanks and
    around punctuation.

    Raises:
        DataError: if a line is not of that form, or not of the dimensions of the first one.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words, vectors = {_PAD: 0, _UNKNOWN: 1}, list[np.ndarray]()
    for word, numbers in _lines(file):
        if word not in words:
            words[word] = len(words)
            vectors.append(numbers)
    if not vectors:
        raise DataError(f"{file}: has no word vectors; a line is a word and its numbers")
    table = np.concatenate(
        [np.zeros((2, len(vectors[0])), dtype=np.float32), np.stack(vectors)]
    )  # (words, dim)
    model = StaticModel(StaticConfig(vocab_size=len(words), hidden_size=table.shape[1]))
    model.tokens.weight.data = torch.from_numpy(table)
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=_UNKNOWN))
    if all(word == word.lower() for word in words.keys() - {_PAD, _UNKNOWN}):
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=_UNKNOWN,
        pad_token=_PAD,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=_LONGEST,
    ).save_pretrained(folder)
    return len(vectors), table.shape[1]


def _lines(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    size, done, dim = file.stat().st_size, 0, None
    with file.open("rb") as lines, Progress("read", size, "bytes") as bar:
        for number, line in enumerate(lines, 1):
            done += len(line)
            bar.reach(done)
            text = line.decode("utf-8", "replace").rstrip()
            word, *numbers = text.rsplit(" ", dim) if dim else text.split(" ")  # a word may have blanks
            if number == 1 and len(numbers) == 1:
                continue
            try:
                vector = np.array(numbers, dtype=np.float32)  # (dim,)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            dim = dim or len(vector)
            if len(vector) != dim or not dim or not np.isfinite(vector).all():
                raise DataError(f"{file}, line {number}: expected a word and {dim or 'its'} numbers")
            yield word, vector
