"""The packages that embedrun needs, and those of its extras, as its own metadata lists them."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from embedrun import __version__
from embedrun.commands.doctor_findings import Finding

# What each extra is for; an extra for working on embedrun itself is not listed.
EXTRAS = {
    "fast": "SentEval in a fraction of the time",
    "mteb": "evaluation=mteb",
    "qlora": "backbone.adapter.quantize=nf4, with CUDA",
    "tensorboard": "tracking=tensorboard",
    "sweep": "hydra/launcher=joblib",
    "slurm": "hydra/launcher=submitit_local and submitit_slurm",
    "hpo": "embedrun tune",
}
_EXTRA = re.compile(r"extra\s*==\s*['\"](\w+)['\"]")
_LEAST_PYTHON = (3, 11)


def findings() -> Iterator[Finding]:
    """Python, embedrun, the packages that every command needs, and the extras."""
    python = sys.version.split()[0]
    yield Finding("python", "ok" if sys.version_info >= _LEAST_PYTHON else "fault", python)
    yield Finding("embedrun", "ok", __version__)
    try:
        wanted = requires("embedrun") or []
    except PackageNotFoundError:
        yield Finding("packages", "note", "embedrun is not installed, so what it needs is not known")
        return
    plain = [text for text in wanted if not _EXTRA.search(text)]
    yield from (_package(text) for text in plain)
    for extra, use in EXTRAS.items():
        own = [text for text in wanted if (found := _EXTRA.search(text)) and found[1] == extra]
        yield _extra(extra, own, use)


def _package(requirement: str) -> Finding:
    """A package that every command needs; a faulty one keeps the quickstart from running."""
    name, state = _name(requirement), _state(requirement)
    if state is None:
        return Finding(name, "fault", f"not installed; pip install '{requirement}'")
    have, fits = state
    if not fits:
        return Finding(name, "fault", f"{have}, and it takes {requirement}; pip install '{requirement}'")
    return Finding(name, "ok", have)


def _extra(extra: str, requirements: list[str], use: str) -> Finding:
    states = {_name(text): _state(text) for text in requirements}
    lacking = [name for name, state in states.items() if state is None]
    if not states:
        return Finding(
            f"extra {extra}", "note", f"not known; embedrun was installed before it had this: {use}"
        )
    if lacking:
        return Finding(f"extra {extra}", "note", f"not installed; pip install 'embedrun[{extra}]' for {use}")
    have = ", ".join(f"{name} {state[0]}" for name, state in states.items() if state)
    return Finding(f"extra {extra}", "ok", f"{have}: {use}")


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _state(requirement: str) -> tuple[str, bool] | None:
    """The version that is installed, and whether it fits; None: none is."""
    try:
        have = version(_name(requirement))
    except PackageNotFoundError:
        return None
    if find_spec("packaging") is None:
        return have, True
    from packaging.requirements import Requirement

    return have, Requirement(requirement).specifier.contains(have, prereleases=True)
