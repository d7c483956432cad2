"""Facts as one HTML file with its style, script and plots inside, without external links."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.console import clean, say
from embedrun.errors import ConfigError, is_full
from embedrun.files import Plain, publish
from embedrun.report.facts import gather
from embedrun.runs.reading import RunFiles

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

FILE = "report.html"
_PAGES = (".html", ".htm")


def write(folder: Path, output: Path | None = None) -> Path:
    """Write the page of a run, by default to `report.html` in the run directory, and return where it is.

    Raises:
        ConfigError: if the page cannot be written there.
        DataError: if a small file of the run cannot be read.
    """
    from embedrun.report.paper import printed, scored_pairs

    run = RunFiles.read(folder)
    predictions, remarks = scored_pairs(run)
    published, source = printed(run)
    facts = gather(run, predictions=predictions, published=published, source=source, remarks=remarks)
    path = folder / FILE if output is None else output
    save(path, render(facts))
    return path


def save(path: Path, text: str) -> None:
    """Write a page in place of an older one.

    Raises:
        ConfigError: if it cannot be written there.
    """
    try:
        publish(path, text.encode(), replace=True)
    except OSError as fault:
        if is_full(fault):
            raise
        raise ConfigError(
            f"embedrun report: {str(path)!r} cannot be written ({fault.strerror}); name a file with -o FILE"
        ) from fault


def write_or_warn(folder: Path) -> None:
    """Write the page of a run that has ended; any obstacle is logged as one warning and fails nothing."""
    try:
        write(folder)
    except Exception as fault:
        why = " ".join(str(fault).split()) or type(fault).__name__
        say(f"warning: no {FILE}: {why}; embedrun report {folder} tries again")


def place_problems(path: Path | None) -> list[str]:
    """Why a page cannot go to a place that the user named; only what may be an older page is overwritten."""
    if path is None:
        return []
    problem = ""
    if not path.parent.is_dir():
        problem = f"cannot be made: there is no folder {str(path.parent)!r}"
    elif path.exists() and not (path.is_file() and path.suffix.lower() in _PAGES):
        problem = f"exists and is no file that ends in {' or '.join(_PAGES)}"
    return [f"embedrun report: -o: {str(path)!r} {problem}; name a file"] if problem else []


_FOLDER = Path(__file__).resolve().parent


def render(facts: Plain) -> str:
    """The page as text; every text in it is escaped and free of control characters."""
    return template("page.html.j2").render(facts=facts, island=island, **assets(["chart.js"], ["style.css"]))


def island(data: object) -> "Markup":
    """JSON that neither begins nor ends anything in HTML, and without control characters."""
    from markupsafe import Markup

    text = clean(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    for sign in "<>&\u2028\u2029":  # the last two end a line of a script
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def assets(scripts: Sequence[str], styles: Sequence[str]) -> dict[str, object]:
    """The text of one script and one style, and the hashes that a content security policy allows them by."""
    from markupsafe import Markup

    texts = {}
    for name, files in (("script", scripts), ("style", styles)):
        text = "".join((_FOLDER / file).read_text(encoding="utf-8") for file in files)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        texts |= {name: Markup(text), f"{name}_hash": f"sha256-{digest}"}
    return texts


@cache
def template(name: str) -> "Template":
    """A template beside this file; what it writes is escaped and free of control characters."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalized,
    )
    return environment.get_template(name)


def _finalized(value: object) -> object:
    """What an expression puts on the page; the output of a macro is escaped already and stays as it is."""
    return value if hasattr(value, "__html__") else clean(str(value))
