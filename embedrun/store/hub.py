"""Data sets of the hub, as files."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from embedrun.config.check import nearest
from embedrun.errors import DataError

PATIENCE = 6.0  # seconds until the hub counts as out of reach
_COMMIT = re.compile(r"[0-9a-f]{40}")
_WAY_ON = "a mounted copy serves as well: embedrun data get NAME --from FOLDER"


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
    folder = _downloaded(repo, revision, files, cache)
    where = f"hub data set {repo}"
    commit = folder.name
    if not _COMMIT.fullmatch(commit) or (revision is not None and commit != revision):
        raise DataError(f"{where}: expected the files of commit {revision}, got those of {commit!r}")
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    problems = [
        f"{where}: no file {name!r} at commit {commit}{nearest(name, there)}; "
        "see `files` of this data set in conf/hub.yaml"
        for name in files
        if name not in there
    ]
    if problems:
        raise DataError(problems)
    return folder, commit


def _downloaded(repo: str, revision: str | None, files: Sequence[str], cache: Path | None) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    at = "its newest commit" if revision is None else f"revision {revision!r}"
    try:
        return Path(
            huggingface_hub.snapshot_download(
                repo,
                repo_type="dataset",
                revision=revision,
                allow_patterns=list(files),
                cache_dir=cache,
                etag_timeout=PATIENCE,
            )
        )
    except errors.GatedRepoError as fault:
        reason, cause = "the hub gives it to approved users only; ask on its page, `hf auth login`", fault
    except errors.RepositoryNotFoundError as fault:
        reason, cause = "the hub has no data set of this name, or it is private", fault
    except errors.RevisionNotFoundError as fault:
        reason, cause = f"the hub has no {at} of it; see `revision` in conf/hub.yaml", fault
    except Exception as fault:  # what a broken network raises has no common class
        first = (str(fault).strip() or "no answer").splitlines()[0]
        reason = f"{at} is not in the hub's cache here, and the hub cannot be reached ({first})"
        cause = fault
    raise DataError(f"hub data set {repo}: {reason}; {_WAY_ON}") from cause


# (repository, revision, files) -> folder with the files, commit
Snapshot = Callable[[str, str | None, Sequence[str]], tuple[Path, str]]
