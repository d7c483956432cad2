"""Where a user's rows come from, files of this machine or a data set of the hub, and their splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

from embedrun.config.check import nearest
from embedrun.dataset.split import SPLITS, By, check_shares
from embedrun.errors import ConfigError
from embedrun.files import expanded
from embedrun.store import hub, kind


@dataclass(frozen=True)
class OnHub:
    """One split of a data set of the hub, by the hub's name of it."""

    path: str
    config: str | None
    revision: str | None
    split: str

    def __str__(self) -> str:
        return f"{self.path}, split {self.split}"

    def shards(self, kinds: Sequence[str]) -> list[Path]:
        """The files of the split, in the hub's order; downloaded where they are not in its cache.

        Raises:
            ConfigError: if there is no such config or split, or its files are of another kind.
            DataError: as `hub.files_of`.
        """
        found = _files(self.path, self.config, self.revision)
        if self.split not in found.splits:
            there = list(found.splits)
            raise ConfigError(
                f"dataset.splits: {self.path} has no split {self.split!r}{nearest(self.split, there)} "
                f"(it has: {', '.join(there)})"
            )
        shards = list(found.splits[self.split])
        others = [shard.name for shard in shards if kind(shard) not in kinds]
        if others:
            raise ConfigError(
                f"dataset.path: {self.path} holds {others[0]}, which is not read as rows with named columns; "
                f"expected {', '.join(kinds)}"
            )
        return shards


@cache
def _files(path: str, config: str | None, revision: str | None) -> hub.HubFiles:
    return hub.files_of(path, config=config, revision=revision)


@dataclass(frozen=True)
class Sources:
    """What the options of a data set say of its files.

    Args:
        owner: the class, for the messages.
        paths: file, folder or data set of the hub of `train`, and files of the others, None for none.
        config: of the data set of the hub; None for its default one.
        revision: commit, branch or tag there; None for the newest.
        splits: ours to the hub's; None for `train` alone.
        split: the share of each split of the one file or data set that `train` names; None: all of it.
        by: what stays together there.
        takes: the splits that `splits` may name.

    Raises:
        ValueError: for options that cannot be meant together, with all faults.
    """

    owner: str
    paths: Mapping[str, str | None]
    config: str | None = None
    revision: str | None = None
    splits: Mapping[str, str] | None = None
    split: Mapping[str, float] | None = None
    by: By = "group"
    takes: Sequence[str] = SPLITS

    def __post_init__(self) -> None:
        faults = self._of_hub() if hub.on_hub(self._path) else self._of_files()
        if self.split is not None:
            faults += check_shares("split", self.split)
            if self.splits is not None:
                faults.append(f"split divides what path names; leave out splits={dict(self.splits)}")
        if self.by not in get_args(By):
            faults.append(f"split_by must be group or row, got {self.by!r}")
        twice = [name for name in self._own if name != "train" and self.paths.get(name) is not None]
        faults += [
            f"{name} has a file of its own, {self.paths[name]!r}, and is taken from path" for name in twice
        ]
        if faults:
            raise ValueError("; ".join(f"{self.owner}: {fault}" for fault in faults))

    @property
    def _path(self) -> str:
        return str(self.paths["train"])

    def _of_hub(self) -> list[str]:
        faults = [
            fault.removeprefix("dataset.") for fault in hub.problems(self._path, self.config, self.revision)
        ]
        for name in self.splits or {}:
            if name not in self.takes:
                hint = nearest(str(name), self.takes)
                faults.append(f"splits has no key {name!r}{hint} (keys: {', '.join(self.takes)})")
        if self.splits is not None and "train" not in self.splits:
            faults.append(
                "splits lacks train; it names the hub's split of each of ours, such as {train: train}"
            )
        return faults

    def _of_files(self) -> list[str]:
        given = {"config": self.config, "revision": self.revision, "splits": self.splits}
        faults = [
            f"{name}={value!r} is of a data set of the hub, and path is {self._path!r}; leave it out, or "
            f"give path={hub.PREFIX}OWNER/NAME"
            for name, value in given.items()
            if value is not None
        ]
        if "://" in self._path:
            faults.append(
                f"path: only files of this machine and {hub.PREFIX}OWNER/NAME are read, got {self._path!r}"
            )
        return faults

    @property
    def _own(self) -> tuple[str, ...]:
        """The splits that come from what `path` names."""
        named = (
            self.split if self.split is not None else self.splits if self.splits is not None else ("train",)
        )
        return tuple(name for name in SPLITS if name in named)

    @property
    def names(self) -> tuple[str, ...]:
        """The splits that there are."""
        return tuple(name for name in SPLITS if self.is_own(name) or self.paths.get(name) is not None)

    def is_own(self, split: str) -> bool:
        """Whether a split comes from what `path` names, and not from a file of its own."""
        return split in self._own

    def place(self, split: str) -> Path | OnHub:
        """Where the rows of a split are; of all splits, where one file is divided."""
        own = self.is_own(split)
        path = self._path if own else str(self.paths[split])
        if not own or not hub.on_hub(path):
            return expanded(path)
        theirs = "train" if self.splits is None else self.splits[split]
        return OnHub(path, self.config, self.revision, theirs)
