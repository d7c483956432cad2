"""Data sets of the hub, as files of its cache: `huggingface_hub` downloads, `datasets` tells the splits."""

import contextlib
import functools
import glob
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard

from embedrun.config.check import nearest
from embedrun.console import say
from embedrun.errors import DISK, OUT_OF_MEMORY, ConfigError, DataError, exit_code
from embedrun.files import Plain
from embedrun.store.columns import shortened
from embedrun.store.read import KINDS, TEXT, kind

PATIENCE = 6.0  # seconds until the hub counts as out of reach
PREFIX = "hf://datasets/"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPO = re.compile(r"(?!.*(--|\.\.))\w[\w.-]*/\w[\w.-]*", re.ASCII)
_INSIDE = re.compile(r"(?!(.*/)?\.{0,2}(/|$))[^*?]+|")  # a file or folder in it, or nothing
_BRANCH = re.compile(r"(?!.*\.\.)\w[\w./-]*", re.ASCII)  # also a tag or a commit
_CARD = "README.md"
_NO_DATA = (".md", ".toml", ".zip")  # `datasets` would read manuals and settings as texts
_COPY = "a copy of another machine's cache serves as well: HF_HOME=FOLDER"


def snapshot(repo: str, revision: str | None, files: Sequence[str]) -> tuple[Path, str]:
    """The folder with files of a commit, else the newest that the hub or its cache has, and the commit."""
    next_step = "a mounted copy serves as well: embedrun data get NAME --from FOLDER"
    folder = _downloaded(repo, revision, files, next_step)
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise DataError(
            f"hub data set {repo}: no file {', '.join(missing)} at commit {folder.name}; see `files` of this "
            "data set in conf/hub.yaml"
        )
    return folder, folder.name


def _downloaded(repo: str, revision: str | None, files: Sequence[str], next_step: str = _COPY) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    get = functools.partial(
        fetched,
        repo,
        repo_type="dataset",
        revision=revision,
        allow_patterns=[glob.escape(name) for name in files],
        etag_timeout=PATIENCE,
    )
    try:
        try:  # or the list of a commit's files would be asked for six times, 23 seconds in all
            huggingface_hub.HfApi().dataset_info(repo, revision=revision, timeout=PATIENCE)
        except Exception as fault:
            with contextlib.suppress(errors.LocalEntryNotFoundError):
                return get(local_files_only=True)
            raise fault
        return get()
    except Exception as fault:  # what a broken network raises has no common class
        if exit_code(fault) in (DISK, OUT_OF_MEMORY):
            raise
        line = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise DataError(
            f"hub data set {repo}: {', '.join(files[:5])} of {_label(revision)} is not in the hub's cache "
            f"here, and the hub does not give it ({type(fault).__name__}: {line}); {next_step}"
        ) from fault


def fetched(repo: str, **options: Any) -> Path:
    """What `huggingface_hub.snapshot_download` gives."""
    import huggingface_hub

    return Path(huggingface_hub.snapshot_download(repo, **options))


def _label(revision: str | None) -> str:
    return "its newest commit" if revision is None else f"revision {revision!r}"


@dataclass(frozen=True)
class HubFiles:
    """The data files of one config of a data set of the hub."""

    folder: Path  # of the hub's cache with the files of one commit; the commit is its name
    splits: Mapping[str, tuple[Path, ...]]  # in the hub's names and order (``train``, ``validation``, ...)

    def missing(self) -> list[str]:
        """Names of the files that are not on this machine, or that are links to nothing."""
        paths = dict.fromkeys(chain.from_iterable(self.splits.values()))
        return [path.relative_to(self.folder).as_posix() for path in paths if not path.is_file()]


def on_hub(path: object) -> TypeGuard[str]:
    """Whether a path is one of the hub: ``hf://datasets/OWNER/NAME``, also with a file or folder in it."""
    return isinstance(path, str) and path.startswith(PREFIX)


def problems(path: str, config: str | None, revision: str | None) -> list[str]:
    """What is wrong with the words alone, found out without reading."""
    repo, inside = _parts(path)
    faults = []
    if not _REPO.fullmatch(repo) or not _INSIDE.fullmatch(inside):
        hint = "; a revision is given as dataset.revision" if "@" in repo else ""
        faults.append(
            f"dataset.path: expected {PREFIX}OWNER/NAME, or one file or folder in it, got {path!r}{hint}"
        )
    if config is not None and inside:
        faults.append(f"dataset.config: {config!r} is of the whole data set, dataset.path names {inside!r}")
    if revision is not None and not _BRANCH.fullmatch(revision):
        faults.append(
            f"dataset.revision: expected a commit, branch or tag, got {revision!r}; null takes the newest"
        )
    return faults


def files_of(
    path: str,
    *,
    config: str | None = None,
    revision: str | None = None,
    kinds: Sequence[str] = (*KINDS, TEXT),
) -> HubFiles:
    """Find the data files of a data set, and download those that the hub's cache lacks.

    Which files belong to which split is what `datasets` makes of the names: the `configs` in the README.md of
    the repository, else the hub's rules. Code of the repository is never run. For a commit whose files,
    README.md too, are in the cache nobody asks the hub.

    `path` is ``hf://datasets/OWNER/NAME``; with a file of it: that file, as split ``train``; with a folder:
    its files by the hub's rules, whatever the README.md says.
    """
    if faults := problems(path, config, revision):
        raise ConfigError(faults)
    repo, inside = _parts(path)
    if (folder := _cached(repo, revision)) is not None:
        with contextlib.suppress(DataError):  # the hub may have what is missing
            chosen = _chosen(repo, folder, inside, config, kinds)
            if not chosen.missing():
                return chosen
    folder = _downloaded(repo, revision, [_CARD])
    chosen = _chosen(repo, folder, inside, config, kinds)
    if missing := chosen.missing():
        _downloaded(repo, folder.name, missing)
    if missing := chosen.missing():
        texts = [f"hub data set {repo}: no file {name!r} in {folder}; {_COPY}" for name in missing]
        raise DataError(shortened(folder, texts))
    return chosen


def pinned(options: Plain, began: object) -> Plain:
    """The options of a data set, with a commit, that of the run's options `began`, in place of a branch.

    What cannot be had stays, for `files_of` to report with everything else that is missing.
    """
    path, revision = options.get("path"), options.get("revision")
    if not on_hub(path) or _COMMIT.fullmatch(str(revision)):
        return options
    if isinstance(began, Mapping) and began.get("path") == path and began.get("revision"):
        return {**options, "revision": began["revision"]}
    with contextlib.suppress(DataError):
        if not problems(path, None, revision):
            return {**options, "revision": _commit_now(path, revision)}
    return options


@functools.cache
def _commit_now(path: str, revision: str | None) -> str:
    """The commit of a branch; asked and said once, so that all jobs of a sweep are looked up by the same."""
    commit = _downloaded(_parts(path)[0], revision, [_CARD]).name
    say(f"{path}: {_label(revision)} is {commit}")
    return commit


def commit_of(options: Plain | None) -> dict[str, str]:
    """The commit of a data set of the hub, by ``hub OWNER/NAME``; of any other data set nothing."""
    options = options or {}
    path = options.get("path")
    return {f"hub {_parts(path)[0]}": str(options.get("revision"))} if on_hub(path) else {}


def _parts(path: str) -> tuple[str, str]:
    parts = path.removeprefix(PREFIX).removesuffix("/").split("/")
    return "/".join(parts[:2]), "/".join(parts[2:])


def _cached(repo: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    if revision is None or not _COMMIT.fullmatch(revision):
        return None
    card = try_to_load_from_cache(repo, _CARD, revision=revision, repo_type="dataset")
    return Path(card).parent if isinstance(card, str) else None


def _chosen(repo: str, folder: Path, inside: str, config: str | None, kinds: Sequence[str]) -> HubFiles:
    where, names = f"hub data set {repo}, commit {folder.name}", _names(repo, folder)
    try:
        splits = {"train": [inside]} if inside in names else _resolved(names, folder / _CARD, inside, config)
    except ConfigError:
        raise
    except Exception as fault:  # of many kinds, for anything that names and a README.md can say
        raise DataError(
            f"{where}: {' '.join(str(fault).split())}; code of the hub is not run; many data sets are there "
            f"as Parquet: dataset.path={PREFIX}{repo}/{config or 'CONFIG'} "
            "dataset.revision=refs/convert/parquet"
        ) from fault
    unread = [
        f"{where}: split {split} has {name!r}; what is read must end in {', '.join(kinds)}"
        for split, files in splits.items()
        for name in files
        if kind(Path(name)) not in kinds
    ]
    if unread:
        raise DataError(shortened(folder, unread))
    return HubFiles(folder, {split: tuple(folder / name for name in splits[split]) for split in splits})


def _resolved(names: Sequence[str], card: Path, inside: str, config: str | None) -> dict[str, list[str]]:
    # Before a download `datasets` can tell the splits by names alone: it is shown a folder of empty files.
    from datasets import load_dataset_builder

    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary, "tree").resolve()
        (tree / inside).mkdir(parents=True)
        for path in [tree / name for name in names if not name.lower().endswith(_NO_DATA)]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        known = [] if inside else _copy_configs(card, tree / _CARD)
        choices = f"(configs: {', '.join(known)})"
        if config is not None and config not in known:
            raise ConfigError(f"dataset.config: no config {config!r}{nearest(config, known)} {choices}")
        try:
            builder = load_dataset_builder(str(tree / inside), name=config, cache_dir=temporary)
        except ValueError as fault:
            if config is None and len(known) > 1:
                raise ConfigError(f"dataset.config: none is the default; choose one {choices}") from fault
            raise
        return {
            str(split): list(dict.fromkeys(Path(file).relative_to(tree).as_posix() for file in files))
            for split, files in (builder.config.data_files or {}).items()
        }


def _names(repo: str, folder: Path) -> list[str]:
    import huggingface_hub
    from huggingface_hub import errors

    try:
        tree = huggingface_hub.get_cached_repo_tree(repo, repo_type="dataset", revision=folder.name)
        return sorted(file.path for file in tree)
    except errors.CachedRepoTreeNotFoundError:
        paths = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
        return sorted(path.relative_to(folder).as_posix() for path in paths)


def _copy_configs(card: Path, copy: Path) -> list[str]:
    """Write the configs of a README.md without their `features`, which may be of another `datasets`."""
    from huggingface_hub import metadata_load

    metadata = metadata_load(card) if card.is_file() else None
    configs = (metadata or {}).get("configs", [])
    plain = [{key: value for key, value in config.items() if key != "features"} for config in configs]
    if outside := re.search(r'"/|\.\./|\.\."|://', json.dumps(plain)):
        raise ValueError(f"its {_CARD} names files by {outside[0]!r}, which is not of this data set")
    if plain:
        copy.write_text(f"---\n{json.dumps({'configs': plain})}\n---\n", encoding="utf-8")
    return [str(config.get("config_name", "default")) for config in plain] or ["default"]
