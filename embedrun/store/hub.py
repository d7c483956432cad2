"""Data sets of the hub, as files."""

import contextlib
import functools
import glob
import posixpath
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from embedrun.config.check import nearest
from embedrun.console import say
from embedrun.errors import DISK, OUT_OF_MEMORY, ConfigError, DataError, exit_code
from embedrun.files import Plain
from embedrun.patience import while_growing, within
from embedrun.store.columns import shortened
from embedrun.store.read import KINDS, TEXT, kind

PATIENCE = 6.0  # seconds until the hub counts as out of reach
_WHOLE = 30.0  # seconds for an answer that comes in drips
_SLOW, _LEAST = 600.0, 1 << 16  # seconds and bytes: a download that gets less in that time is given up
PREFIX = "hf://datasets/"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPO = re.compile(r"(?!.*(--|\.\.))\w[\w.-]*/\w[\w.-]*", re.ASCII)
_BRANCH = re.compile(r"(?!.*\.\.)\w[\w./-]*", re.ASCII)  # also a tag or a commit
_NUMBERED = re.compile(r"(.*-)(\d{5})-of-(\d{5}).*")  # train-00000-of-00002.parquet
_CARD = "README.md"
_DEFAULT = "default"  # what the hub calls the one config of a data set that names none
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
            ask = functools.partial(huggingface_hub.HfApi().dataset_info, repo, revision=revision)
            within(_WHOLE, lambda: ask(timeout=PATIENCE))
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
    """What `huggingface_hub.snapshot_download` gives; one that hardly moves raises TimeoutError.

    Its own limit is of each read, which a byte now and then renews.
    """
    import huggingface_hub
    from huggingface_hub import constants, file_download

    kind = options.get("repo_type", "model")
    own = Path(constants.HF_HUB_CACHE, file_download.repo_folder_name(repo_id=repo, repo_type=kind))

    def held() -> int:
        every = (path for folder in (own, Path(constants.HF_XET_CACHE)) for path in folder.rglob("*"))
        return sum(path.lstat().st_size for path in every if path.is_file())

    get = functools.partial(huggingface_hub.snapshot_download, repo, **options)
    return Path(get() if options.get("local_files_only") else while_growing(_SLOW, _LEAST, held, get))


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
    noticed there by a name in the README.md, by a pattern that finds nothing, or by a number
    (``train-00000-of-00002``), and not otherwise.

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
            found = _Commit(repo, folder).choose(inside, config)
            if not _missing(found):
                return found
    folder = _downloaded(repo, revision, [_CARD], _OF_USER)
    found = _Commit(repo, folder).choose(inside, config)
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


class _Commit:
    """The files of one commit, by their names alone.

    `names` are all that the commit has, here or on the hub, if `whole`; else those that are here.
    """

    def __init__(self, repo: str, folder: Path) -> None:
        import huggingface_hub
        from huggingface_hub import errors

        self.repo, self.folder = repo, folder
        self.where = f"hub data set {repo}, commit {folder.name}"
        try:
            tree = huggingface_hub.get_cached_repo_tree(repo, repo_type="dataset", revision=folder.name)
            self.whole, self.names = True, {file.path for file in tree}
        except errors.CachedRepoTreeNotFoundError:
            here = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
            self.whole, self.names = False, {path.relative_to(folder).as_posix() for path in here}

    def choose(self, inside: str, config: str | None) -> HubFiles:
        """The files of a config, or of the file or folder `inside`; they need not be on this machine yet."""
        if inside in self.names:
            splits = {"train": [inside]}
        else:
            base, patterns = (inside, None) if inside else self._config(config)
            splits = self._splits(base, patterns)
        self._check_kinds(splits, config or _DEFAULT)
        return HubFiles(
            self.folder,
            {split: tuple(self.folder / name for name in names) for split, names in splits.items()},
        )

    def _config(self, chosen: str | None) -> tuple[str, Any]:
        """The folder that the data files of a config are sought in, and their patterns or None."""
        from datasets.utils.metadata import MetadataConfigs
        from huggingface_hub import metadata_load

        card = self.folder / _CARD
        try:
            listed = (metadata_load(card) or {}).get("configs") or [] if card.is_file() else []
            # Of the rest, `features` may be of a version of `datasets` that is not the one here.
            read = MetadataConfigs.from_dataset_card_data(
                {"configs": [{key: one[key] for key in one if key != "features"} for one in listed]}  # type: ignore[arg-type]
            )
        except Exception as fault:  # of `yaml` or `datasets`, for anything that a file can hold
            raise DataError(
                f"{self.where}: the configs in its {_CARD} cannot be read ({_first_line(fault)}); name a "
                f"file or a folder of it: dataset.path={PREFIX}{self.repo}/FILE"
            ) from fault
        configs = {str(name): config for name, config in read.items()} or {_DEFAULT: {}}
        defaults = [
            name
            for name, one in configs.items()
            if len(configs) == 1 or name == _DEFAULT or one.get("default")
        ]
        where, every = f"dataset.config: hub data set {self.repo}", ", ".join(configs)
        if not chosen and len(defaults) != 1:
            raise ConfigError(f"{where} has several configs and no one default; choose one of {every}")
        chosen = chosen or defaults[0]
        if chosen not in configs:
            hint = nearest(chosen, configs)
            raise ConfigError(f"{where} has no config {chosen!r}{hint} (configs: {every})")
        base = posixpath.normpath(str(configs[chosen].get("data_dir") or "."))
        self._require_inside(base)
        return "" if base == "." else base, configs[chosen].get("data_files")

    def _splits(self, base: str, files: Any) -> dict[str, list[str]]:
        """Files by split: by the patterns of the README.md, else as the hub tells them by their names."""
        from datasets.data_files import EmptyDatasetError, get_data_patterns, sanitize_patterns

        splits: dict[str, list[str]] = {}
        faults: list[str] = []
        with self._tree(base) as root:
            try:
                patterns = get_data_patterns(str(root)) if files is None else sanitize_patterns(files)
            except EmptyDatasetError:
                patterns = {}
            except ValueError as fault:  # of data/a-b-00000-of-00001.parquet: a split of no possible name
                raise DataError(f"{self.where}: {_first_line(fault)}") from fault
            for split, several in patterns.items():
                found = {str(pattern): self._named(base, str(pattern), root) for pattern in several}
                names = list(dict.fromkeys(name for names in found.values() for name in names))
                if names:
                    splits[str(split)] = names
                faults += [
                    self._not_found(base, pattern, str(split))
                    for pattern, its in found.items()
                    # As on the hub, one of several patterns may find nothing. A copy may lack its files.
                    if not its
                    and files is not None
                    and not (self.whole and names and glob.has_magic(pattern))
                ]
        if faults:
            raise DataError(shortened(self.folder, faults))
        if not splits:
            raise self._no_data(base)
        self._check_numbers(name for names in splits.values() for name in names)
        return splits

    def _named(self, base: str, pattern: str, root: Path) -> list[str]:
        """Files by one name or pattern below a folder of the data set."""
        from datasets.data_files import resolve_pattern

        full = posixpath.normpath(posixpath.join(base, pattern))
        self._require_inside(pattern)
        if full in self.names:  # whatever signs of a pattern it holds
            return [full]
        try:
            # An absolute path: a pattern with a colon would be taken for the address of another file system.
            found = resolve_pattern(f"{root}/{pattern}", str(root))
        except FileNotFoundError:
            return []
        return _of_one_format([posixpath.join(base, Path(path).relative_to(root)) for path in found])

    def _require_inside(self, name: str) -> None:
        if name.startswith("/") or ".." in name.split("/") or "://" in name or "::" in name:
            said = f"its {_CARD} names {name!r}, which is not of this data set and not read"
            raise DataError(f"{self.where}: {said}")

    def _not_found(self, base: str, pattern: str, split: str) -> str:
        hint = nearest(posixpath.normpath(posixpath.join(base, pattern)), self.names)
        lacking = f"the commit has no such file{hint}"
        if not self.whole:
            lacking = f"{self.folder} has none{hint}; {_OF_USER}"
        return f"{self.where}: its {_CARD} names {pattern!r} for split {split}, and {lacking}"

    def _check_numbers(self, names: Iterable[str]) -> None:
        """Refuse shards that say how many there should be, where only those that are here are known."""
        where = f"in {self.folder}; {_OF_USER}"
        there: dict[tuple[str, int], set[int]] = {}
        for name in () if self.whole else names:
            if found := _NUMBERED.fullmatch(name):
                there.setdefault((found[1], int(found[3])), set()).add(int(found[2]))
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

        `datasets` resolves patterns against files, and before a download there are only names.
        """
        prefix = f"{base}/" if base else ""
        with tempfile.TemporaryDirectory() as made:
            for name in self.names:
                if name.startswith(prefix):
                    path = Path(made, name.removeprefix(prefix))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch()
            yield Path(made)


def _of_one_format(names: Sequence[str]) -> list[str]:
    """Those of the format that most have; a licence or a picture beside the data is left out."""
    from datasets.load import infer_module_for_data_files_list

    def read_as(names: Sequence[str]) -> str | None:
        return infer_module_for_data_files_list(list(names))[0]  # type: ignore[arg-type]

    # Manuals and settings are nobody's data, and archives are not looked into.
    plain = [name for name in names if not name.lower().endswith((".md", ".toml", ".zip"))]
    commonest = read_as(plain) if plain else None
    if commonest is None:
        return [name for name in names if name.lower().endswith(".zip")]
    return [name for name in plain if read_as([name]) == commonest]
