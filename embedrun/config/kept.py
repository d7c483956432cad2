"""Configurations composed before, kept in the cache folder: Hydra takes a second for what never changes."""

import contextlib
import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from embedrun import __version__
from embedrun.config import presets
from embedrun.files import Plain, read_json, user_cache, whole_file

_LONG = 30 * 86_400  # seconds since something was added; what other versions and presets have left goes then
# What presets may ask for that is decided by them alone; a clock or a variable of the environment is not.
_OF_THEMSELVES = re.compile(r"positive_from:|hydra:job\.num\}")
_ASKED = re.compile(r"\$\{\s*(?=\w[\w.]*:)")


def folder() -> Path:
    """`embedrun/compositions` in the user's cache folder; anything in it may be deleted at any time."""
    return user_cache() / "compositions"


class Kept:
    """What was made of the presets as they are now, by this version of the package and of Hydra.

    Both are known by their content, which a process reads once. Nothing is kept where a preset asks for
    something outside of them, or the cache cannot be written; what is damaged is made anew.
    """

    def __init__(self) -> None:
        basis = basis_of(presets.folder())
        self._folder = None if basis is None else folder() / basis

    def made(self, asked: Plain, make: Callable[[], Plain]) -> Plain:
        """What `make` gives, which is plain data and decided by `asked`; its faults are never kept."""
        if self._folder is None:
            return make()
        words = json.dumps(asked)
        path = self._folder / f"{_digest(words)}.json"
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            key, text, mark = read_json(path)
            if key == words and mark == _digest(text):
                return json.loads(text)
        found = make()
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            self._keep(path, words, found)
        return found

    def _keep(self, path: Path, words: str, found: Plain) -> None:
        text = json.dumps(found)
        if json.loads(text) != found:  # numbers as keys, or NaN
            return
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
            for other in folder().iterdir():
                if other.stat().st_mtime < time.time() - _LONG:
                    shutil.rmtree(other, ignore_errors=True)
        with whole_file(path, sync=False) as aside:
            aside.write_text(json.dumps([words, text, _digest(text)]), encoding="utf-8")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def basis_of(conf: Path) -> str | None:
    """A hash of all that decides a composition but the request, as it first was; None where more does."""
    code = Path(__file__).parent
    digest = hashlib.sha256(f"{__version__} {version('hydra-core')} {version('omegaconf')}".encode())
    try:
        for root, suffix in ((conf, "*.yaml"), (code, "*.py")):
            for path in sorted(root.rglob(suffix)):
                content = path.read_bytes()
                digest.update(f"{path.relative_to(root)} {len(content)} ".encode() + content)
                if root == conf and not _decided(content.decode()):
                    return None
    except (OSError, ValueError):
        return None  # Hydra says what is wrong with it
    return digest.hexdigest()[:40]


def _decided(text: str) -> bool:
    return all(_OF_THEMSELVES.match(text, asked.end()) for asked in _ASKED.finditer(text))
