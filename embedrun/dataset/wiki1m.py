"""Sentences of English Wikipedia for unsupervised training."""

from typing import Any

from embedrun.dataset.masking import masking_of, with_masking
from embedrun.dataset.prepared import mapped_if_large
from embedrun.dataset.store_pairs import OfStore, read_columns
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.columns import sentence

_WHOLE = "wiki/wiki1m.txt.gz"
_SAMPLE = "wiki/wiki_sentences.txt.gz"


class Wiki1m(OfStore):
    """One sentence a row, from `wiki/wiki1m.txt.gz` where the store has it, else from a sample of Wikipedia.

    Source: the million sentences that Gao et al. 2021 (SimCSE), doi:10.18653/v1/2021.emnlp-main.552, drew
    from English Wikipedia; ArcCSE and RankCSE train on them. The sample, `wiki/wiki_sentences.txt.gz`,
    mixes some of these with other sentences of Wikipedia, among them contexts of QNLI's dev and test splits.
    `files` says which of the two is read.

    Args:
        masking: options of :class:`~embedrun.dataset.masking.Masking`, `{}` for its defaults: the rows have
            the views masked_once and masked_twice, and the target `maskable`. null: they have not.

    Raises:
        ValueError: if `masking` has an unknown option or one out of range.
    """

    name = "wiki1m"
    form = "text"
    splits = ("train",)

    def __init__(self, *, masking: dict[str, Any] | None = None) -> None:
        self.masking = masking_of(masking)
        self.targets = () if self.masking is None else ("maskable",)

    def files(self, split: str, store: Store) -> list[str]:
        """The file of the split, by its name in the store; the whole before the sample."""
        self.require(split)
        return [_WHOLE if store.has(_WHOLE) else _SAMPLE]

    def read(self, split: str, store: Store) -> Rows:
        """The sentences of the split, in file order; DataError also for an empty line."""
        (file,) = self.files(split, store)
        key = {"data_set": self.name}
        rows = mapped_if_large([store.path(file)], key, lambda: self._sentences(file, split, store))
        return with_masking(rows, self.masking)

    def _sentences(self, file: str, split: str, store: Store) -> Rows:
        texts = read_columns(store, file, {"text": sentence})
        return Rows(name=self.name, split=split, form=self.form, texts=texts)
