"""A user's own triplets of anchor, positive and negatives, from TSV, CSV, JSON Lines or Parquet files."""

from embedrun.dataset.pairs import OfUser, OwnRows, layouts
from embedrun.dataset.source import Sources
from embedrun.dataset.split import By
from embedrun.dataset.user_files import OnBadRow


class Triplets(OfUser):
    """A text, one that means the same or follows from it, and one that does not.

    The form that supervised SimCSE trains on (Gao et al. 2021, doi:10.18653/v1/2021.emnlp-main.552). A row
    has several hard negatives where `columns` names `negative_1` to `negative_n` in place of `negative`. No
    text may be empty. Dev and test splits are scored pairs, as `Pairs` reads them: only these can be held
    against an encoder.

    Args:
        path: training file or folder of shards, of the kinds that `Pairs` reads, or a data set of the hub,
            `hf://datasets/OWNER/NAME`.
        dev: pairs with a score that select the checkpoint; null for none.
        test: pairs with a score; null for none.
        columns: our name to the file's name; null for `anchor`, `positive` and `negative` under these names.
            The negatives of a row are `negative`, or `negative_1`, `negative_2` and so on without a gap.
        pair_columns: the same for dev and test; null for `text1`, `text2` and `score`.
        separator: between the fields of `.csv` and `.tsv`, one character, `\\t` for a tab; null for a comma
            and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: our splits to the hub's; null for `{train: train}`. Dev and test triplets are scored as pairs:
            the anchor with its positive has score 1, with each negative 0.
        split: `{train: 0.9, dev: 0.05, test: 0.05}` divides what `path` names into splits, at random by
            `split_seed`, those that are held out scored as with `splits`. null: all of it is train.
        split_by: `group` keeps rows together that share a text, directly or through others; `row` does not.
        split_seed: not the seed of the run, so that runs of several seeds have the same rows.

    Raises:
        ValueError: if a map has an unknown name, lacks one, uses a column twice, or leaves a number out.
    """

    name = "triplets"
    form = "triplet"
    targets = ()
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
        split: dict[str, float] | None = None,
        split_by: By = "group",
        split_seed: int = 42,
    ) -> None:
        own, pairs = layouts("Triplets", self.form, columns, pair_columns)
        paths = {"train": path, "dev": dev, "test": test}
        source = Sources("Triplets", paths, config, revision, splits, split, split_by)
        self._own = OwnRows(self.name, source, own, pairs, on_bad_row, separator, split_seed)
        self.splits = self._own.splits
        self.views = self._own.views
