"""Data sets of the hub, as files."""

import contextlib
import functools
import glob
import posixpath
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_NUMBERED = re.compile(r"(.*-)(\d{5})-of-(\d{5}).*")  # train-00000-of-00002.parquet
_CARD = "README.md"
_DEFAULT = "default"  # what the hub calls the one config of a data set that names none


@dataclass(frozen=True)
class _Words:
    """What a message says to the user of one command: where the revision is given, and the way on."""

    revision: str
    way_on: str


_OF_STORE = _Words(
    revision="see `revision` in conf/hub.yaml",
    way_on="a mounted copy serves as well: embedrun data get NAME --from FOLDER",
)
_OF_USER = _Words(
    revision="see dataset.revision",
    way_on="a copy of another machine's cache serves as well: HF_HOME=FOLDER",
)


def snapshot(
    repo: str, revision: str | None, files: Sequence[str], *, cache: Path | None = None
) -> tuple[Path, str]:
    """Download files of one commit, unless the hub's cache has them; without network the cache serves.

    Args:
        repo: data set id.
        revision: commit; None for the newest, and without network for the newest that the cache knows.
        files: names inside the repository.
        cache: the hub's cache folder; None for the usual one.

    Returns:
        The folder with the files, and their commit, 40 hexadecimal digits.

    Raises:
        DataError: if there is no such repository, revision or file, or the hub does not answer.
    """
    folder = _downloaded(repo, revision, files, cache, _OF_STORE)
    where = f"hub data set {repo}"
    commit = folder.name
    if not _COMMIT.fullmatch(commit) or (revision is not None and commit != revision):
        raise DataError(f"{where}: expected the files of commit {revision}, got those of {commit!r}")
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    faults = [
        f"{where}: no file {name!r} at commit {commit}{nearest(name, there)}; "
        "see `files` of this data set in conf/hub.yaml"
        for name in files
        if name not in there
    ]
    if faults:
        raise DataError(faults)
    return folder, commit


# (repository, revision, files) -> folder with the files, commit
Snapshot = Callable[[str, str | None, Sequence[str]], tuple[Path, str]]


def _downloaded(
    repo: str, revision: str | None, files: Sequence[str], cache: Path | None, words: _Words
) -> Path:
    """The folder of a commit with these files of it, as far as the commit has them."""
    import huggingface_hub
    from huggingface_hub import errors

    get = functools.partial(
        huggingface_hub.snapshot_download,
        repo,
        repo_type="dataset",
        revision=revision,
        allow_patterns=[glob.escape(name) for name in files],
        cache_dir=cache,
        etag_timeout=PATIENCE,
    )
    try:
        try:  # or the list of a commit's files would be asked for six times, 23 seconds in all
            huggingface_hub.HfApi().dataset_info(repo, revision=revision, timeout=PATIENCE)
        except Exception as fault:
            with contextlib.suppress(errors.LocalEntryNotFoundError):
                return Path(get(local_files_only=True))
            raise fault
        return Path(get())
    except errors.GatedRepoError as fault:
        reason, cause = "the hub gives it to approved users only; ask on its page, `hf auth login`", fault
    except errors.RepositoryNotFoundError as fault:
        reason, cause = "the hub has no data set of this name, or it is private", fault
    except errors.RevisionNotFoundError as fault:
        reason, cause = f"the hub has no {_said(revision)} of it; {words.revision}", fault
    except Exception as fault:  # what a broken network raises has no common class
        if exit_code(fault) in (DISK, OUT_OF_MEMORY):
            raise
        first = (str(fault).strip() or "no answer").splitlines()[0]
        reason = f"{_not_here(repo, revision, files, cache)}, and the hub cannot be reached ({first})"
        cause = fault
    raise DataError(f"hub data set {repo}: {reason}; {words.way_on}") from cause


def _not_here(repo: str, revision: str | None, files: Sequence[str], cache: Path | None) -> str:
    """What the hub's cache lacks, and which commits it has."""
    from huggingface_hub import constants

    folder = Path(cache or constants.HF_HUB_CACHE) / f"datasets--{repo.replace('/', '--')}" / "snapshots"
    commits = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if revision in commits:
        lacking = [name for name in files if not (folder / revision / name).is_file()]
        return f"of revision {revision!r} the hub's cache here lacks {', '.join(lacking)}"
    cached = f" (cached: {', '.join(commits)})" if commits else ""
    return f"{_said(revision)} is not in the hub's cache here{cached}"


def _said(revision: str | None) -> str:
    return "its newest commit" if revision is None else f"revision {revision!r}"


@dataclass(frozen=True)
class HubFiles:
    """The data files of one config of a data set of the hub, all of them on this machine.

    Args:
        repo: OWNER/NAME.
        commit: that the files are of, 40 hexadecimal digits, whatever revision was asked for.
        config: its name; ``default`` where the repository names none.
        folder: of the hub's cache with the files of this commit.
        splits: files by split, both named and ordered as the hub does (``train``, ``validation``, ...).
    """

    repo: str
    commit: str
    config: str
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
    if config is not None and not config.strip():
        faults.append("dataset.config: the name of a config is missing; null takes the default one")
    if revision is not None and not _BRANCH.fullmatch(revision):
        faults.append(
            f"dataset.revision: expected a commit, branch or tag, got {revision!r}; null takes the newest"
        )
    return faults


def files_of(
    path: str, *, config: str | None = None, revision: str | None = None, cache: Path | None = None
) -> HubFiles:
    """Find the data files of a data set, and download those that the hub's cache lacks.

    Which files belong to which split is what `datasets` makes of the names: the `configs` in the README.md of
    the repository, else the hub's rules for names of files and folders. Only the files of the config are
    downloaded; code of the repository is never run. For a commit whose files are all in the cache nobody asks
    the hub; a branch is looked up there once, and without network in the cache.

    A cache that was filled by `huggingface_hub` has a list of all files of the commit. One that was copied
    together by hand has none: what is missing is noticed there by a name in the README.md, by a pattern that
    finds nothing, or by a number (``train-00000-of-00002``), and not otherwise.

    Args:
        path: ``hf://datasets/OWNER/NAME``; with a file of it: that file, as split ``train``; with a folder:
            its files by the hub's rules, whatever the README.md says.
        config: one of the configs in the README.md; None for the default one.
        revision: commit, branch or tag; None for the newest commit.
        cache: the hub's cache folder; None for the usual one.

    Raises:
        ConfigError: for words that cannot be meant, an unknown config, or none where there are several.
        DataError: if there is no such data set, revision or file, the hub does not answer, or a file is of a
            kind that is not read.
    """
    if faults := problems(path, config, revision):
        raise ConfigError(faults)
    repo, inside = _parts(path)
    asked = (inside, config)
    if revision is not None and (folder := _cached(repo, revision, cache)) is not None:
        with contextlib.suppress(DataError):  # the hub may have what is missing
            found = _Commit(repo, folder, cache).choose(*asked)
            if not _missing(found):
                return found
    folder = _downloaded(repo, revision, [_CARD], cache, _OF_USER)
    found = _Commit(repo, folder, cache).choose(*asked)
    if missing := _missing(found):
        _downloaded(repo, found.commit, missing, cache, _OF_USER)
    if missing := _missing(found):
        texts = [f"hub data set {repo}: no file {name!r} in {folder}; {_OF_USER.way_on}" for name in missing]
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
    commit = _downloaded(_parts(path)[0], revision, [_CARD], None, _OF_USER).name
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


def _cached(repo: str, revision: str, cache: Path | None) -> Path | None:
    """The folder of a commit in the cache, if the README.md that says what is what is there too."""
    import huggingface_hub
    from huggingface_hub import errors

    if not _COMMIT.fullmatch(revision):
        return None
    try:
        folder = huggingface_hub.snapshot_download(
            repo,
            repo_type="dataset",
            revision=revision,
            cache_dir=cache,
            local_files_only=True,
            allow_patterns=[_CARD],
        )
    except errors.LocalEntryNotFoundError:
        return None
    commit = _Commit(repo, Path(folder), cache)
    # A whole list without one was checked above; a copy without one may have lost it.
    return commit.folder if commit.whole or (commit.folder / _CARD).is_file() else None


def _missing(found: HubFiles) -> list[str]:
    """Names of the files that are not on this machine, or that are links to nothing."""
    every = dict.fromkeys(path for files in found.splits.values() for path in files)
    return [path.relative_to(found.folder).as_posix() for path in every if not path.is_file()]


class _Commit:
    """The files of one commit, by their names alone.

    `names` are all that the commit has, here or on the hub, if `whole`; else those that are here.
    """

    def __init__(self, repo: str, folder: Path, cache: Path | None) -> None:
        import huggingface_hub
        from huggingface_hub import errors

        self.repo, self.folder = repo, folder
        self.where = f"hub data set {repo}, commit {folder.name}"
        try:
            tree = huggingface_hub.get_cached_repo_tree(
                repo, repo_type="dataset", revision=folder.name, cache_dir=cache
            )
        except errors.CachedRepoTreeNotFoundError:
            self.whole = False
            here = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
            names = [path.relative_to(folder).as_posix() for path in here]
        else:
            self.whole = True
            names = [file.path for file in tree]
        self.names = {name for name in names if not _leads_out(name)}

    def choose(self, inside: str, config: str | None) -> HubFiles:
        """The files of a config, or of the file or folder `inside`; they need not be on this machine yet."""
        files: Any = None
        if inside:
            config = _DEFAULT
            splits = {"train": [inside]} if inside in self.names else self._by_rule(inside)
        else:
            config, base, files = self._config(config)
            splits = self._by_rule(base) if files is None else self._by_patterns(base, files)
        self._check_kinds(splits, config)
        return HubFiles(
            repo=self.repo,
            commit=self.folder.name,
            config=config,
            folder=self.folder,
            splits={split: tuple(self.folder / name for name in names) for split, names in splits.items()},
        )

    def _config(self, chosen: str | None) -> tuple[str, str, Any]:
        """Name of a config, the folder that its data files are sought in, and their patterns or None."""
        from datasets.utils.metadata import MetadataConfigs

        listed = self._card().get("configs") or []
        try:
            # Of the rest, `features` may be of a version of `datasets` that is not the one here.
            configs = MetadataConfigs.from_dataset_card_data(
                {"configs": [{key: one[key] for key in one if key != "features"} for one in listed]}  # type: ignore[arg-type]
            )
        except Exception as fault:  # of `datasets`, for anything that a YAML file can hold
            raise self._unreadable_card(fault) from fault
        names = [str(name) for name in configs]
        if not configs:
            if chosen not in (None, _DEFAULT):
                raise ConfigError(
                    f"dataset.config: {chosen!r} is not known, because the README.md of hub data set "
                    f"{self.repo} names no configs; leave dataset.config null"
                )
            return _DEFAULT, "", None
        if chosen is None:
            try:
                chosen = configs.get_default_config_name()
            except ValueError:  # several
                chosen = None
        if chosen is None:
            raise ConfigError(
                f"dataset.config: hub data set {self.repo} has several configs and no one default; "
                f"choose one of {', '.join(names)}"
            )
        if str(chosen) not in names:
            raise ConfigError(
                f"dataset.config: hub data set {self.repo} has no config {chosen!r}{nearest(chosen, names)} "
                f"(configs: {', '.join(names)})"
            )
        config = next(config for name, config in configs.items() if str(name) == str(chosen))
        base = posixpath.normpath(str(config.get("data_dir") or "."))
        if _leads_out(base):
            raise self._foreign(base)
        return str(chosen), "" if base == "." else base, config.get("data_files")

    def _card(self) -> Mapping[str, Any]:
        """What the README.md says in its YAML block; nothing where there is none."""
        from huggingface_hub import metadata_load

        path = self.folder / _CARD
        if not path.is_file():
            return {}
        try:
            return metadata_load(path) or {}
        except Exception as fault:  # of yaml, or bytes that are not UTF-8
            raise self._unreadable_card(fault) from fault

    def _unreadable_card(self, fault: Exception) -> DataError:
        reason = " ".join(str(fault).partition("Examples of")[0].split())
        return DataError(
            f"{self.where}: the configs in its {_CARD} cannot be read ({reason}); name a file or a folder of "
            f"it: dataset.path={PREFIX}{self.repo}/FILE"
        )

    def _by_rule(self, base: str) -> dict[str, list[str]]:
        """Files by split as the hub tells them by their names, in one folder or in the whole repository."""
        from datasets.data_files import EmptyDatasetError, get_data_patterns

        with self._tree(base) as root:
            try:
                patterns = get_data_patterns(str(root))
            except EmptyDatasetError:
                patterns = {}
            except ValueError as fault:  # of data/a-b-00000-of-00001.parquet: a split of no possible name
                raise DataError(f"{self.where}: {fault}") from fault
            found = {
                str(split): [posixpath.join(base, name) for one in several for name in _matches(one, root)]
                for split, several in patterns.items()
            }
        splits = {split: kept for split, names in found.items() if (kept := _of_one_format(names))}
        if not splits:
            raise self._no_data(base)
        self._check_numbers(name for names in splits.values() for name in names)
        return splits

    def _by_patterns(self, base: str, files: Any) -> dict[str, list[str]]:
        """Files by split as the README.md names them, by name or by pattern."""
        from datasets.data_files import sanitize_patterns

        splits: dict[str, list[str]] = {}
        faults: list[str] = []
        with self._tree(base) as root:
            for split, patterns in sanitize_patterns(files).items():
                found = {str(pattern): self._named(base, str(pattern), root) for pattern in patterns}
                splits[split] = list(dict.fromkeys(name for names in found.values() for name in names))
                faults += [
                    self._not_found(base, pattern, split)
                    for pattern, names in found.items()
                    # As on the hub, one of several patterns may find nothing. A copy may lack its files.
                    if not names and not (self.whole and splits[split] and glob.has_magic(pattern))
                ]
        if faults:
            raise DataError(shortened(self.folder, faults))
        return splits

    def _named(self, base: str, pattern: str, root: Path) -> list[str]:
        """Files by one name or pattern of the README.md."""
        full = posixpath.normpath(posixpath.join(base, pattern))
        if _leads_out(full) or "://" in pattern or "::" in pattern:
            raise self._foreign(pattern)
        if full in self.names:  # whatever signs of a pattern it holds
            return [full]
        names = _matches(pattern, root)
        found = [posixpath.join(base, name) for name in names if _format(name) is not None]
        self._check_numbers(found)
        return found

    def _foreign(self, name: str) -> DataError:
        return DataError(
            f"{self.where}: its {_CARD} names {name!r}, which is not of this data set and not read"
        )

    def _not_found(self, base: str, pattern: str, split: str) -> str:
        hint = nearest(posixpath.normpath(posixpath.join(base, pattern)), self.names)
        if self.whole:
            where, lacking = self.where, f"the commit has no such file{hint}"
        else:
            where, lacking = f"hub data set {self.repo}", f"{self.folder} has none{hint}; {_OF_USER.way_on}"
        return f"{where}: its {_CARD} names {pattern!r} for split {split}, and {lacking}"

    def _check_numbers(self, names: Iterable[str]) -> None:
        """Refuse shards that say how many there should be, where only those that are here are known."""
        there: dict[tuple[str, int], set[int]] = {}
        for name in () if self.whole else names:
            if found := _NUMBERED.fullmatch(name):
                there.setdefault((found[1], int(found[3])), set()).add(int(found[2]))
        where = f"in {self.folder}; {_OF_USER.way_on}"
        faults = [
            f"hub data set {self.repo}: no file '{stem}{number:05d}-of-{count:05d}' {where}"
            for (stem, count), numbers in there.items()
            for number in sorted(set(range(count)) - numbers)
        ]
        if faults:
            raise DataError(shortened(self.folder, faults))

    def _check_kinds(self, splits: Mapping[str, Sequence[str]], config: str) -> None:
        """Refuse files that are not read."""
        accepted = f"{', '.join((*KINDS, TEXT))}, those of text also with .gz"
        faults = [
            f"{self.where}: split {split} has {name!r}; what is read must end in {accepted}"
            for split, names in splits.items()
            for name in names
            if kind(Path(name)) is None
        ]
        if faults:
            raise DataError([*shortened(self.folder, faults), self._converted(config)])

    def _no_data(self, base: str) -> DataError:
        if base:
            folders = {parent.as_posix() for name in self.names for parent in PurePosixPath(name).parents}
            hint = nearest(base, {*self.names, *folders})
            return DataError(f"{self.where}: {base!r} is neither a file nor a folder with data{hint}")
        said = f"{self.where}: it has no data file" + ("" if self.whole else f" in {self.folder}")
        if scripts := sorted(name for name in self.names if name.endswith(".py")):
            said += f"; they are made by {', '.join(scripts[:3])}, and code from the hub is not run"
        return DataError([said, self._converted("CONFIG")])

    def _converted(self, config: str) -> str:
        return (
            "the hub converts many data sets to Parquet; this one would be "
            f"dataset.path={PREFIX}{self.repo}/{config} dataset.revision=refs/convert/parquet"
        )

    @contextlib.contextmanager
    def _tree(self, base: str) -> Iterator[Path]:
        """A folder of empty files by the names of those in `base`.

        `datasets` resolves patterns against files, and before a download there are only names. In a folder of
        our own no part of the cache's path can be taken for a pattern.
        """
        prefix = f"{base}/" if base else ""
        with tempfile.TemporaryDirectory() as made:
            root = Path(made)
            for name in self.names:
                if name.startswith(prefix):
                    path = root / name.removeprefix(prefix)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch()
            yield root


def _leads_out(name: str) -> bool:
    """Whether a name is none of a file inside a folder."""
    return name.startswith("/") or ".." in PurePosixPath(name).parts


def _matches(pattern: str, root: Path) -> list[str]:
    """The files below `root` that a pattern of the hub finds, sorted, relative to it."""
    from datasets.data_files import resolve_pattern

    try:
        # An absolute path: a pattern with a colon would be taken for the address of another file system.
        found = resolve_pattern(f"{root}/{pattern}", str(root))
    except FileNotFoundError:
        return []
    return [Path(path).relative_to(root).as_posix() for path in found]


def _format(name: str) -> str | None:
    """What `datasets` reads a file of that name as; None for none that holds data."""
    from datasets.load import infer_module_for_data_files_list

    suffix = PurePosixPath(name).suffix.lower()
    if suffix in (".md", ".toml"):  # manuals and settings, which it takes for tasks of agents
        return None
    if suffix == ".zip":  # which it would open
        return "zip"
    return infer_module_for_data_files_list([name])[0]  # type: ignore[arg-type]


def _of_one_format(names: Sequence[str]) -> list[str]:
    """Those of the commonest format, each once; a licence or a picture beside the data is left out."""
    from datasets.load import infer_module_for_data_files_list

    formats = {name: _format(name) for name in names}
    plain = [name for name, found in formats.items() if found not in (None, "zip")]
    commonest = infer_module_for_data_files_list(plain)[0] if plain else "zip"  # type: ignore[arg-type]
    return [name for name, found in formats.items() if found == commonest]
