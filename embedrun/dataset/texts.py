"""A user's own texts without scores, from plain text, TSV, CSV, JSON Lines or Parquet files."""

from typing import Any

from embedrun.dataset.masking import masking_of, with_masking
from embedrun.dataset.pairs import OfUser, OwnRows, layouts
from embedrun.dataset.source import Sources
from embedrun.dataset.user_files import OnBadRow
from embedrun.rows import Rows
from embedrun.store import KINDS, TEXT, Store


class Texts(OfUser):
    """One text a row, none of them empty: what unsupervised objectives train on.

    In a `.txt` file each line is a text, and a blank line is a faulty row. Dev and test splits are scored
    pairs, as `Pairs` reads them: only these can be held against an encoder.

    Args:
        path: training file or folder of shards: `.txt`, UTF-8, also with `.gz`, or of the kinds that `Pairs`
            reads. Or a data set of the hub, `hf://datasets/OWNER/NAME`.
        dev: pairs with a score that select the checkpoint; null for none.
        test: pairs with a score; null for none.
        columns: our name to the file's name; null for `text` under this name. A `.txt` file has no names.
        pair_columns: the same for dev and test; null for `text1`, `text2` and `score`.
        separator: between the fields of `.csv` and `.tsv`, one character, `\\t` for a tab; null for a comma
            and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: `{train: NAME}`, the hub's split that is trained on; null for `train`.
        masking: options of :class:`~embedrun.dataset.masking.Masking`, `{}` for its defaults: the rows have
            the views masked_once and masked_twice, and the target `maskable`. null: they have not.

    Raises:
        ValueError: if a map has an unknown name, lacks one, or uses a column twice, or if `masking` has an
            unknown option or one out of range.
    """

    name = "texts"
    form = "text"
    graded = ("dev", "test")  # pairs with a score

    def __init__(
        self,
        *,
        path: str,
        dev: str | None = None,
        test: str | None = None,
        columns: dict[str, str] | None = None,
        pair_columns: dict[str, str] | None = None,
        separator: str | None = None,
        on_bad_row: OnBadRow = "refuse",
        config: str | None = None,
        revision: str | None = None,
        splits: dict[str, str] | None = None,
        masking: dict[str, Any] | None = None,
    ) -> None:
        self.masking = masking_of(masking)
        self.targets = () if self.masking is None else ("maskable",)
        own, pairs = layouts("Texts", self.form, columns, pair_columns, (TEXT, *KINDS))
        paths = {"train": path, "dev": dev, "test": test}
        source = Sources("Texts", paths, config, revision, splits, takes=("train",))
        self._own = OwnRows(self.name, source, own, pairs, on_bad_row, separator, 0)
        self.splits = self._own.splits

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, in file order."""
        rows = super().read(split, store)
        return with_masking(rows, self.masking) if split == "train" else rows
