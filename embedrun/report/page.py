"""Facts on a page: one HTML file with its style and plots inside, without a script and without a link out."""

from functools import cache
from pathlib import Path
from typing import Any

from embedrun.console import clean
from embedrun.report.facts import Facts

_FOLDER = Path(__file__).resolve().parent
_TEMPLATE = "page.html.j2"


def render(facts: Facts) -> str:
    """The page as text; every text in it is escaped and free of control characters."""
    return _template().render(facts=facts)


@cache
def _template() -> Any:
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
    return environment.get_template(_TEMPLATE)


def _finalized(value: Any) -> Any:
    """What an expression puts on the page; what a macro gives is escaped already and stays as it is."""
    return value if hasattr(value, "__html__") else clean(str(value))
