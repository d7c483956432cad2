"""A user's own pairs, texts and triplets, from TSV, CSV, JSON Lines or Parquet files or the hub."""

from dataclasses import replace
from typing import Any

from embedrun.config.scale import range_problem
from embedrun.dataset.masking import masking_of, with_masking
from embedrun.dataset.split import By
from embedrun.dataset.user_files import OfUser, OnBadRow, Source, layout
from embedrun.rows import Rows
from embedrun.store import KINDS, TEXT, Store


class Pairs(OfUser):
    """Sentence pairs with a score, an NLI label, both, or neither: then each is a text and its positive.

    Every row is held against the rules below. By default a file with a faulty row is refused, and the message
    names file, line, column and reason of the first 20.

    - `text1`, `text2`: not empty.
    - `score`: a finite number on any scale, or on that of `score_range`; higher is more similar.
    - `label`: 0 entailment, 1 neutral, 2 contradiction. Where there is no score, dev and test are ranked by
      it: 1, 0.5 and 0.

    Args:
        path: training file, relative to the caller's folder: `.tsv` (header, no quoting), `.csv` (header, RFC
            4180 quoting), `.jsonl` (an object a line), each UTF-8 and also with `.gz`, or `.parquet`. A
            folder is read as one file, its shards sorted by name. Or a data set of the hub,
            `hf://datasets/OWNER/NAME`.
        dev: file or folder of the dev split; null for none.
        test: file or folder of the test split; null for none.
        columns: our name to the file's name; null for `text1`, `text2` and `score` under these names. It
            gives the targets: a target that it leaves out is not read.
        pair_columns: the same for files of their own in dev and test; null for that of `columns`.
        score_range: `[low, high]`, the scale of the scores, such as `[1,5]`: a score outside is a faulty row,
            and a loss that takes pairs for positives by their score takes the upper quarter. null: not known.
        separator: between the fields of `.csv` and `.tsv`, one character, `\\t` for a tab; null for a comma
            and a tab.
        on_bad_row: `refuse`, or `skip`, which leaves faulty rows out and lists them in `Rows.skipped`.
        config: of the data set of the hub; null for its default one.
        revision: commit, branch or tag there; null for the newest. The commit is noted in the run.
        splits: our splits to the hub's; null for `{train: train}`.
        split: `{train: 0.9, dev: 0.05, test: 0.05}` divides what `path` names into splits, at random by
            `split_seed`. null: all of it is train.
        split_by: `group` keeps rows together that share a text, directly or through others; `row` does not.
        split_seed: not the seed of the run, so that runs of several seeds have the same rows.

    Raises:
        ValueError: if the map has an unknown name, lacks a text, or uses a column twice, or options cannot be
            meant together.
    """

    name = "pairs"
    form = "pair"

    def __init__(
        self,
        *,
        path: str,
        dev: str | None = None,
        test: str | None = None,
        columns: dict[str, str] | None = None,
        pair_columns: dict[str, str] | None = None,
        score_range: list[float] | None = None,
        separator: str | None = None,
        on_bad_row: OnBadRow = "refuse",
        config: str | None = None,
        revision: str | None = None,
        splits: dict[str, str] | None = None,
        split: dict[str, float] | None = None,
        split_by: By = "group",
        split_seed: int = 42,
    ) -> None:
        scale = None
        train = layout("Pairs", "columns", "pair", columns)
        held_out = train if pair_columns is None else layout("Pairs", "pair_columns", "pair", pair_columns)
        if score_range is not None:
            if fault := range_problem(score_range):
                raise ValueError(f"Pairs: score_range: {fault}")
            if "score" not in (*train.targets, *held_out.targets):
                raise ValueError(f"Pairs: score_range={score_range} is of scores, and columns names none")
            scale = (float(score_range[0]), float(score_range[1]))
            train, held_out = (replace(item, score_range=scale) for item in (train, held_out))
        self.targets = train.targets
        self.score_range = scale
        source = Source(
            path, dev, test, separator, on_bad_row, config, revision, splits, split, split_by, split_seed
        )
        super().__init__(train, held_out, source)


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
    kinds = (TEXT, *KINDS)

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
        source = Source(path, dev, test, separator, on_bad_row, config, revision, splits)
        train = layout("Texts", "columns", "text", columns)
        held_out = layout("Texts", "pair_columns", "pair", pair_columns)
        super().__init__(train, held_out, source, accepted=("train",))

    def read(self, split: str, store: Store) -> Rows:
        """The rows of the split, in file order."""
        rows = super().read(split, store)
        return with_masking(rows, self.masking) if split == "train" else rows


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
        source = Source(
            path, dev, test, separator, on_bad_row, config, revision, splits, split, split_by, split_seed
        )
        train = layout("Triplets", "columns", "triplet", columns)
        super().__init__(train, layout("Triplets", "pair_columns", "pair", pair_columns), source)
