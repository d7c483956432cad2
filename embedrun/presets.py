"""Where conf/ is, and what stands in it: no import but the standard library."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder() -> Path:
    """The preset folder: `conf/` beside the package in a checkout, inside it in a wheel."""
    installed = _PACKAGE / "conf"
    return installed if installed.is_dir() else _PACKAGE.parent / "conf"


def groups(conf: Path | None = None) -> dict[str, list[str]]:
    """The choices of every config group, by group, both sorted."""
    root = conf or folder()
    found = {}
    for directory in sorted(path for path in root.rglob("*") if path.is_dir()):
        names = sorted(path.stem for path in directory.glob("*.yaml"))
        if names:
            found[directory.relative_to(root).as_posix()] = names
    return found
