"""Which models a run began with: the commit of each, else what its files hold."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from embedrun.config import BackboneConfig, TeacherConfig
from embedrun.runs.search import MODEL
from embedrun.store import sha256

# What decides a model's vectors; a folder may hold other files, such as its card.
_FILES = (
    "*.json",
    "*/config.json",
    "*.safetensors",
    "*/model.safetensors",  # a layer behind the pooling
    "pytorch_model*.bin",
    "*vocab.txt",
    "*merges.txt",
    "*.model",
)


def of_models(config: BackboneConfig, teachers: Sequence[TeacherConfig] | None) -> dict[str, str]:
    """The commit or `digest` of the model that is trained, if it has a name, and of each teacher.

    Args:
        config: of the backbone.
        teachers: or None.

    Returns:
        By ``model NAME``, with ``@REVISION`` behind it where one is asked for. An adapter's has that of its
        base behind it.

    Raises:
        DataError: if there is no such model.
        ConfigError: for a revision of a local folder.
    """
    from embedrun.backbone.files import locate

    named = [] if config.name is None else [(config.name, config.revision)]
    named += [(teacher.name, teacher.revision) for teacher in teachers or ()]
    return {
        f"{MODEL}{name}" + ("" if revision is None else f"@{revision}"): _of(locate(name, revision))
        for name, revision in dict.fromkeys(named)
    }


def digest(folder: Path) -> str:
    """SHA-256, in hex, of the names and contents of a model's files."""
    files = sorted({path for pattern in _FILES for path in folder.glob(pattern) if path.is_file()})
    found = hashlib.sha256()
    for path in files:
        found.update(f"{path.relative_to(folder).as_posix()} {sha256(path)}\n".encode())
    return found.hexdigest()


def _of(folder: Path) -> str:
    from embedrun.backbone.files import base_of, commit_of

    own, base = commit_of(folder) or digest(folder), base_of(folder)
    return own if base is None else f"{own} on {_of(base)}"
