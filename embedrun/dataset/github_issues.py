"""Pairs of GitHub issues: AnglE's own, or as `embedrun collect` makes them."""

from functools import partial
from pathlib import Path

from embedrun.dataset.store_pairs import OfStore, read_columns
from embedrun.files import expanded
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.columns import as_scores, score, sentence

_FOLDER = "github_issues"


class GithubIssues(OfStore):
    """Long texts: an issue and the one it was closed as a duplicate of (score 1), or another (score 0).

    Source: the GitHub Issues Similarity Dataset of the AnglE paper, Sec. 4.1 and Table 1: 18,565 / 1,547 /
    1,548 pairs of 55 repositories, over 60 % of the texts longer than 512 tokens. The authors' copy on the
    hub, which `embedrun data get github_issues` fetches, does not name the repository of a pair. `embedrun
    collect` makes such pairs of the issues of today.

    Args:
        path: the output folder of `embedrun collect`, or `github_issues/` in it; null for `github_issues/`
            of the data store.
    """

    name = "github_issues"
    form = "pair"
    targets = ("score",)
    splits = ("train", "dev", "test")

    def __init__(self, *, path: str | None = None) -> None:
        self._path = None if path is None else expanded(path)

    def files(self, split: str, store: Store) -> list[str]:
        """The file of the split, by its name in the store; none where a path is given."""
        return [] if self._path is not None else [self._file(split)]

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        name = self._file(split)
        if self._path is None:
            return [
                f"{problem}; `embedrun data get github_issues` fetches AnglE's own, and `embedrun collect "
                "output=DIR` makes others for dataset.path=DIR"
                for problem in store.missing([name])
            ]
        if not self._place().has(name):
            return [
                f"dataset.path: no {name} in {str(self._path)!r}; `embedrun collect output=DIR` makes one"
            ]
        return []

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order; `subset` is the repository."""
        place, name = self._place() if self._path is not None else store, self._file(split)
        rules = {
            "text1": sentence,
            "text2": sentence,
            "score": partial(score, low=0, high=1),
            "repository": sentence,
        }
        typed = read_columns(place, name, rules)
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={"left": typed["text1"], "right": typed["text2"]},
            targets={"score": as_scores(typed["score"])},
            subset=typed["repository"],
        )

    def _file(self, split: str) -> str:
        self.require(split)
        return f"{_FOLDER}/{split}.jsonl.gz"

    def _place(self) -> Store:
        """The folder that holds `github_issues/`."""
        path = self._path or Path()
        return Store(path.absolute().parent if path.absolute().name == _FOLDER else path)
