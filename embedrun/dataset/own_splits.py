"""Training rows of any form and, as dev and test, scored pairs: all from the user's own files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from embedrun.dataset.column_map import OnBadRow, check_columns, check_on_bad_row
from embedrun.dataset.columns import sentence
from embedrun.dataset.pairs import pair_files, read_pairs, unreadable
from embedrun.dataset.user_files import Files
from embedrun.rows import FORMS, Rows


class Splits:
    """The splits of a data set whose training rows are texts without targets.

    Args:
        name: of the data set, as its option `name` gives it.
        form: of the training rows, a key of `FORMS`; its text columns are those of the map.
        kinds: what the names of training files may end in.
        paths: file or folder by split, None for none.
        columns: our name to the file's name, of the training files; None for our own names.
        pair_columns: the same for dev and test.
        on_bad_row: `refuse` or `skip`.

    Raises:
        ValueError: for a column map that cannot be meant, or dev and test pairs without a score.
    """

    def __init__(
        self,
        *,
        name: str,
        form: str,
        kinds: Sequence[str],
        paths: Mapping[str, str | None],
        columns: Mapping[str, str] | None,
        pair_columns: Mapping[str, str] | None,
        on_bad_row: OnBadRow,
    ) -> None:
        owner = name.capitalize()
        check_on_bad_row(owner, on_bad_row)
        views = FORMS[form]
        names = {column: column for column in views.values()} if columns is None else dict(columns)
        check_columns(owner, "columns", names, list(views.values()))
        if pair_columns is not None and "score" not in pair_columns:
            raise ValueError(f"{owner}: pair_columns lacks 'score', which dev and test are scored by")
        held_out = {split: path for split, path in paths.items() if split != "train"}
        self._name, self._form = name, form
        self._train = Files(
            option="dataset.path",
            path=Path(str(paths["train"])).expanduser(),
            columns=names,
            rules=dict.fromkeys(names, sentence),
            kinds=kinds,
            on_bad_row=on_bad_row,
        )
        pairs = pair_files(owner, "pair_columns", held_out, pair_columns, on_bad_row)
        self._files = {"train": self._train, **pairs}
        self.names = tuple(self._files)

    def problems(self, split: str) -> list[str]:
        """Why the split cannot be read; nothing is read."""
        return unreadable(self._files, split)

    def read(self, split: str) -> Rows:
        """The rows of the split, in file order.

        Raises:
            ValueError: if there is no such split.
            DataError: as `Files.read`.
        """
        if split not in self._files:
            raise ValueError(f"{self._name}: no split {split!r}; give dataset.{split}=FILE")
        if split != "train":
            return read_pairs(self._name, split, self._files[split])
        values, skipped = self._train.read()
        texts = {view: values[column] for view, column in FORMS[self._form].items()}
        return Rows(name=self._name, split=split, form=self._form, texts=texts, skipped=skipped)
