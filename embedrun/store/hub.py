"""Data sets of the hub, as files."""

import contextlib
import functools
import glob
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

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
_BRANCH = re.compile(r"(?!.*\.\.)\w[\w./-]*", re.ASCII)  # also a tag or a commit
_CARD = "README.md"
_DEFAULT = "default"  # what the hub calls the one config of a data set that names none
_NO_DATA = (".md", ".toml", ".zip")  # `datasets` would read manuals and settings as texts
_OF_STORE = "a mounted copy serves as well: embedrun data get NAME --from FOLDER"
_OF_USER = "a copy of another machine's cache serves as well: HF_HOME=FOLDER"


def snapshot(repo: str, revision: str | None, files: Sequence[str]) -> tuple[Path, str]:
    """Download files of one commit, unless the hub's cache has them; without network the cache serves.

    `revision` is a commit, or None for the newest, without network the newest that the cache knows. Gives the
    folder with the files, and their commit.

    Raises:
        DataError: if there is no such repository, revision or file, or the hub does not answer.
    """
    folder = _downloaded(repo, revision, files, _OF_STORE)
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    faults = [
        f"hub data set {repo}: no file {name!r} at commit {folder.name}{nearest(name, there)}; "
        "see `files` of this data set in conf/hub.yaml"
        for name in files
        if name not in there
    ]
    if faults:
        raise DataError(faults)
    return folder, folder.name


def _downloaded(repo: str, revision: str | None, files: Sequence[str], way_on: str) -> Path:
    """The folder of a commit with these files of it, as far as the commit has them."""
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
    except errors.GatedRepoError as fault:
        reason, cause = "the hub gives it to approved users only; ask on its page, `hf auth login`", fault
    except errors.RepositoryNotFoundError as fault:
        reason, cause = "the hub has no data set of this name, or it is private", fault
    except errors.RevisionNotFoundError as fault:
        reason, cause = f"the hub has no {_said(revision)} of it", fault
    except Exception as fault:  # what a broken network raises has no common class
        if exit_code(fault) in (DISK, OUT_OF_MEMORY):
            raise
        lacking = f"{', '.join(files[:5])} of {_said(revision)} is not in the hub's cache here"
        reason, cause = f"{lacking}, and the hub cannot be reached ({_first_line(fault)})", fault
    raise DataError(f"hub data set {repo}: {reason}; {way_on}") from cause


def fetched(repo: str, **options: Any) -> Path:
    """What `huggingface_hub.snapshot_download` gives."""
    import huggingface_hub

    return Path(huggingface_hub.snapshot_download(repo, **options))


def _first_line(fault: Exception) -> str:
    return (str(fault).strip() or type(fault).__name__).splitlines()[0]


def _said(revision: str | None) -> str:
    return "its newest commit" if revision is None else f"revision {revision!r}"


@dataclass(frozen=True)
class HubFiles:
    """The data files of one config of a data set of the hub, all of them on this machine.

    Args:
        folder: of the hub's cache with the files of one commit; the commit is its name.
        splits: files by split, both named and ordered as the hub does (``train``, ``validation``, ...).
    """

    folder: Path
    splits: Mapping[str, tuple[Path, ...]]


def on_hub(path: str) -> bool:
    """Whether a path is one of the hub: ``hf://datasets/OWNER/NAME``, also with a file or folder in it."""
    return path.startswith(PREFIX)


def problems(path: str, config: str | None, revision: str | None) -> list[str]:
    """What is wrong with the words alone, found out without reading."""
    repo, inside = _parts(path)
    faults = []
    if not _REPO.fullmatch(repo):
        _, at, branch = repo.partition("@")
        hint = f"; a revision is given as dataset.revision={branch}" if at else ""
        faults.append(
            f"dataset.path: expected {PREFIX}OWNER/NAME, or a file or folder in it, got {path!r}{hint}"
        )
    parts = inside.split("/") if inside else []
    if any(part in ("", ".", "..") or set(part) & set("*?") for part in parts):
        faults.append(f"dataset.path: {inside!r} must be one file or folder of {repo}; patterns are not read")
    if config is not None and inside:
        faults.append(
            f"dataset.config: {config!r} chooses among the configs of the whole data set, and dataset.path "
            f"names {inside!r} in it; leave out one of the two"
        )
    if revision is not None and not _BRANCH.fullmatch(revision):
        faults.append(
            f"dataset.revision: expected a commit, branch or tag, got {revision!r}; null takes the newest"
        )
    return faults


def files_of(path: str, *, config: str | None = None, revision: str | None = None) -> HubFiles:
    """Find the data files of a data set, and download those that the hub's cache lacks.

    Which files belong to which split is what `datasets` makes of the names: the `configs` in the README.md of
    the repository, else the hub's rules for names of files and folders. Only the files of the config are
    downloaded; code of the repository is never run. For a commit whose files, README.md too, are in the cache
    nobody asks the hub; a branch is looked up there once, and without network in the cache.

    A cache that was copied together by hand has no list of the files of the commit: what is missing is
    noticed there by a name in the README.md or a pattern that finds nothing, and not otherwise.

    Args:
        path: ``hf://datasets/OWNER/NAME``; with a file of it: that file, as split ``train``; with a folder:
            its files by the hub's rules, whatever the README.md says.
        config: one of the configs in the README.md; None for the default one.
        revision: commit, branch or tag; None for the newest commit.

    Raises:
        ConfigError: for words that cannot be meant, an unknown config, or none where there are several.
        DataError: if there is no such data set, revision or file, the hub does not answer, or a file is of a
            kind that is not read.
    """
    if faults := problems(path, config, revision):
        raise ConfigError(faults)
    repo, inside = _parts(path)
    if (folder := _cached(repo, revision)) is not None:
        with contextlib.suppress(DataError):  # the hub may have what is missing
            found = _chosen(repo, folder, inside, config)
            if not _missing(found):
                return found
    folder = _downloaded(repo, revision, [_CARD], _OF_USER)
    found = _chosen(repo, folder, inside, config)
    if missing := _missing(found):
        _downloaded(repo, folder.name, missing, _OF_USER)
    if missing := _missing(found):
        texts = [f"hub data set {repo}: no file {name!r} in {folder}; {_OF_USER}" for name in missing]
        raise DataError(shortened(folder, texts))
    return found


def pinned(options: Plain, began: object) -> Plain:
    """The options of a data set, with a commit in the place of a branch of the hub.

    `began` are the settled options of a run that began with these, whose commit is used. What
    cannot be had stays, for `files_of` to report with everything else that is missing.
    """
    path, revision = options.get("path"), options.get("revision")
    if not isinstance(path, str) or not on_hub(path) or (revision and _COMMIT.fullmatch(str(revision))):
        return options
    if isinstance(began, Mapping) and began.get("path") == path and began.get("revision"):
        return {**options, "revision": began["revision"]}
    if problems(path, None, revision):
        return options
    try:
        return {**options, "revision": _commit_now(path, revision)}
    except DataError:
        return options


@functools.cache
def _commit_now(path: str, revision: str | None) -> str:
    """The commit of a branch; asked and said once, so that all jobs of a sweep are looked up by the same."""
    commit = _downloaded(_parts(path)[0], revision, [_CARD], _OF_USER).name
    say(f"{path}: {_said(revision)} is {commit}")
    return commit


def commit_of(options: Plain | None) -> dict[str, str]:
    """The commit of a data set of the hub, by ``hub OWNER/NAME``; of any other data set nothing."""
    path = None if options is None else options.get("path")
    if not isinstance(path, str) or not on_hub(path):
        return {}
    return {f"hub {_parts(path)[0]}": str((options or {}).get("revision"))}


def _parts(path: str) -> tuple[str, str]:
    """The repository, and what is meant inside of it, or nothing."""
    parts = path.removeprefix(PREFIX).removesuffix("/").split("/")
    return "/".join(parts[:2]), "/".join(parts[2:])


def _cached(repo: str, revision: str | None) -> Path | None:
    """The folder of a commit in the cache, if the README.md that says what is what is there too."""
    from huggingface_hub import try_to_load_from_cache

    if revision is None or not _COMMIT.fullmatch(revision):
        return None
    card = try_to_load_from_cache(repo, _CARD, revision=revision, repo_type="dataset")
    return Path(card).parent if isinstance(card, str) else None


def _missing(found: HubFiles) -> list[str]:
    """Names of the files that are not on this machine, or that are links to nothing."""
    every = dict.fromkeys(path for files in found.splits.values() for path in files)
    return [path.relative_to(found.folder).as_posix() for path in every if not path.is_file()]


def _chosen(repo: str, folder: Path, inside: str, config: str | None) -> HubFiles:
    """The files of a config, or of the file or folder `inside`; they need not be on this machine yet."""
    from datasets import load_dataset_builder

    where, names = f"hub data set {repo}, commit {folder.name}", _names(repo, folder)
    if inside in names:
        splits = {"train": [inside]}
    else:
        chosen = {} if inside else _config(repo, folder, config)
        # `datasets` tells the files of a split by names alone, and before a download there is nothing else.
        with tempfile.TemporaryDirectory() as made:
            tree = Path(made, "tree").resolve()
            base = tree / (inside or str(chosen.pop("data_dir", None) or ""))
            base.mkdir(parents=True)
            for name in names:
                if name.startswith(f"{inside}/" if inside else "") and not name.lower().endswith(_NO_DATA):
                    (tree / name).parent.mkdir(parents=True, exist_ok=True)
                    (tree / name).touch()
            if "data_files" in chosen:
                header = json.dumps({"configs": [chosen]})
                (base / _CARD).write_text(f"---\n{header}\n---\n", encoding="utf-8")
            try:
                builder = load_dataset_builder(str(base), cache_dir=made)
                splits = {
                    str(split): list(dict.fromkeys(Path(file).relative_to(tree).as_posix() for file in files))
                    for split, files in (builder.config.data_files or {}).items()
                }
            except Exception as fault:  # of many kinds, for anything that names and a README.md can say
                reason = " ".join(str(fault).replace(f"{tree}/", "").replace(str(tree), "it").split())
                reason = reason.partition(" with any supported extension")[0]
                raise DataError([f"{where}: {reason}", *_ways_on(repo, inside, config, names)]) from fault
    accepted = f"{', '.join((*KINDS, TEXT))}, those of text also with .gz"
    faults = [
        f"{where}: split {split} has {name!r}; what is read must end in {accepted}"
        for split, files in splits.items()
        for name in files
        if kind(Path(name)) is None
    ]
    if faults:
        raise DataError([*shortened(folder, faults), *_ways_on(repo, "", config, names)])
    return HubFiles(folder, {split: tuple(folder / name for name in splits[split]) for split in splits})


def _names(repo: str, folder: Path) -> list[str]:
    """The names of all files that the commit has, as far as that is known here."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        tree = huggingface_hub.get_cached_repo_tree(repo, repo_type="dataset", revision=folder.name)
        return sorted(file.path for file in tree)
    except errors.CachedRepoTreeNotFoundError:
        paths = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
        return sorted(path.relative_to(folder).as_posix() for path in paths)


def _config(repo: str, folder: Path, name: str | None) -> dict[str, Any]:
    """The config of this name in the README.md, else the default one; empty where it names none."""
    from huggingface_hub import metadata_load

    card, where = folder / _CARD, f"hub data set {repo}, commit {folder.name}"
    try:
        listed = (metadata_load(card) or {}).get("configs") or [] if card.is_file() else []
        # `features` may be of another version of `datasets`.
        configs = {
            str(one.get("config_name", _DEFAULT)): {key: one[key] for key in one if key != "features"}
            for one in listed
        }
    except Exception as fault:  # of `yaml`, for anything that a file can hold
        raise DataError(
            f"{where}: the configs in its {_CARD} cannot be read ({_first_line(fault)}); name a "
            f"file or a folder of it: dataset.path={PREFIX}{repo}/FILE"
        ) from fault
    configs, option = configs or {_DEFAULT: {}}, f"dataset.config: hub data set {repo}"
    if name is None:
        defaults = [
            one for one in configs if len(configs) == 1 or one == _DEFAULT or configs[one].get("default")
        ]
        if len(defaults) != 1:
            every = ", ".join(configs)
            raise ConfigError(f"{option} has several configs and no one default; choose one of {every}")
        name = defaults[0]
    elif name not in configs:
        raise ConfigError(
            f"{option} has no config {name!r}{nearest(name, configs)} (configs: {', '.join(configs)})"
        )
    for text in _texts([configs[name].get("data_dir"), configs[name].get("data_files")]):
        if text.startswith("/") or ".." in text.split("/") or "://" in text or "::" in text:
            said = f"its {_CARD} names {text!r}, which is not of this data set and not read"
            raise DataError(f"{where}: {said}")
    return configs[name]


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        yield from _texts(list(data.values()))
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)


def _ways_on(repo: str, inside: str, config: str | None, names: Sequence[str]) -> list[str]:
    if inside:
        folders = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents}
        return [f"{inside!r} is neither a file nor a folder with data{nearest(inside, {*names, *folders})}"]
    scripts = [name for name in names if name.endswith(".py")]
    said = [f"it is made by {', '.join(scripts[:3])}, and code from the hub is not run"] if scripts else []
    return [
        *said,
        "the hub converts many data sets to Parquet; this one would be "
        f"dataset.path={PREFIX}{repo}/{config or 'CONFIG'} dataset.revision=refs/convert/parquet",
    ]
