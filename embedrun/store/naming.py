"""Which files of a store a user's words mean."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from embedrun.config.check import nearest
from embedrun.errors import ConfigError
from embedrun.store.catalogue import Catalogue


def choose(command: str, names: Sequence[str], paths: Iterable[str], catalogue: Catalogue) -> list[str]:
    """The files that the names mean, in the given order; all of them where no name is given.

    A name is that of a data set (`subj`) or of a group (`senteval`); else a folder (`senteval/mrpc`), a file
    (`sts/sts12.tsv.gz`) or its stem (`snli_dev`).

    Args:
        command: for the message.
        names: the user's.
        paths: names of files in the store.
        catalogue: knows the data sets.

    Raises:
        ConfigError: for every name that means nothing, with the nearest that does.
    """
    ours = {*catalogue.data_sets, *catalogue.groups}
    # The folder `nli` holds more than the group `nli`, which is what is meant.
    known = {path: (_names(path) - ours) | catalogue.names_of(path) for path in paths}
    words = sorted(set().union(*known.values()))
    wanted = {name.rstrip("/") for name in names}
    problems = [
        f"{command}: nothing is named {name!r}{nearest(name, words)}; embedrun data list shows every data set"
        for name in sorted(wanted)
        if name not in words
    ]
    if problems:
        raise ConfigError(problems)
    return [path for path, own in known.items() if not wanted or wanted & own]


def _names(path: str) -> set[str]:
    pure = PurePosixPath(path)
    folders = {parent.as_posix() for parent in pure.parents} - {"."}
    return {path, pure.name.split(".")[0], *folders}
