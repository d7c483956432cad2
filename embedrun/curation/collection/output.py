"""The folder of a collection: its settings, its files in the store layout, and its provenance."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from embedrun.blocks import differing
from embedrun.curation.collection.pairs import Pair
from embedrun.errors import IN_USE, EmbedrunError
from embedrun.files import Plain, as_written, claim, open_lock, publish, read_json, sha256, whole_folder

FOLDER = "github_issues"
_SETTINGS = "collect.json"
_LOCK = ".lock"
_WAY_ON = "name a new folder with output=DIR"
_COLUMNS = ("text1", "text2", "score", "repository", "number1", "number2")


class Output:
    """One folder: `github_issues/`, a `MANIFEST.json` of it, and `collect.json`, the settings behind it.

    The folder need not exist. `github_issues/` is written aside and renamed, so that it is complete or
    absent.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / FOLDER

    def problem(self, settings: Plain) -> str | None:
        """Why the folder cannot take a collection with these settings, or None; nothing is written."""
        if not self.root.exists():
            return None
        if not self.root.is_dir():
            return f"{str(self.root)!r} is a file; name a folder"
        if not (self.root / _SETTINGS).is_file():
            foreign = any(not one.name.startswith((".tmp-", _LOCK)) for one in self.root.iterdir())
            return f"{str(self.root)!r} holds other files; name a new folder" if foreign else None
        with as_written(self.root / _SETTINGS, "the settings of a collection", _WAY_ON):
            before = read_json(self.root / _SETTINGS)
        if not (changed := differing(settings, before)):
            return None
        return (
            f"{str(self.root)!r} is of a collection with another {', '.join(changed)}; name a new folder "
            f"(with cache={self.root}/pages it asks for nothing twice)"
        )

    def provenance(self) -> Plain | None:
        """The provenance of the finished collection; None where none is finished.

        Raises:
            DataError: if it cannot be read.
        """
        path = self.folder / "provenance.json"
        with as_written(path, "the provenance of a collection", _WAY_ON):
            return read_json(path) if path.is_file() else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """The folder, made if need be; inside, no other process collects into it.

        Raises:
            ConfigError: if the lock file is a link.
            EmbedrunError: exit 8, if another does.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with open_lock(self.root / _LOCK) as lock:
            if not claim(lock, self.root):
                raise EmbedrunError(
                    f"{self.root}: in use by another embedrun collect; wait for it to finish",
                    exit_code=IN_USE,
                )
            yield

    def begin(self, settings: Plain) -> None:
        """Make the folder and note its settings; where others may collect, inside of `held`."""
        self.root.mkdir(parents=True, exist_ok=True)
        if not (self.root / _SETTINGS).is_file():
            _replace(self.root / _SETTINGS, settings)

    @contextmanager
    def publishing(self) -> Iterator[Path]:
        """A folder to write into, which becomes `github_issues/` if the block succeeds."""
        with whole_folder(self.folder) as aside:
            aside.mkdir()
            yield aside

    def write_manifest(self, provenance: Plain) -> None:
        """List the files as a store does, so that `embedrun data check` can verify them."""
        _replace(self.root / "MANIFEST.json", provenance["files"])


def write_split(path: Path, pairs: Sequence[Pair], texts: Mapping[str, Mapping[int, str]]) -> Plain:
    """Write one split as gzipped JSON Lines, in the order of the pairs; returns its entry of the manifest.

    `texts` are by repository and number.
    """
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for pair in pairs:
            own = texts[pair.repository]
            values = (own[pair.left], own[pair.right], pair.score, pair.repository, pair.left, pair.right)
            row = dict(zip(_COLUMNS, values, strict=True))
            packed.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    scores = [pair.score for pair in pairs]
    return {
        "path": f"{FOLDER}/{path.name}",
        "bytes": path.stat().st_size,
        "sha256": sha256(path),
        "rows": len(pairs),
        "columns": list(_COLUMNS),
        "score_min_max": [min(scores), max(scores)],
    }


def write_provenance(folder: Path, provenance: Plain) -> None:
    """Write `provenance.json`."""
    (folder / "provenance.json").write_text(_json(provenance), encoding="utf-8")


def _json(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _replace(path: Path, data: object) -> None:
    publish(path, _json(data).encode(), replace=True)
