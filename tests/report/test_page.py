import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from embedrun.report.page import render

PAYLOADS = [
    '" onerror="alert(1)',
    "</style></title></pre></script><script>alert(1)</script><img src=http://example.org/x onerror=alert(1)>",
]
STYLE = re.compile(r"(left|top|width):[-\d.]+%(;width:[-\d.]+%)?")
ADDRESSES = ("src", "href", "action", "data", "formaction", "poster", "background", "srcset", "ping")


class Outline(HTMLParser):
    """Elements with their attributes, and all text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    found.close()
    return found


def shape(page: str) -> list[tuple[str, list[str]]]:
    return [(tag, sorted(attributes)) for tag, attributes in outline(page).elements]


def islands(page: str) -> list[list[dict]]:
    """The charts of each group, as the script of the page reads them."""
    return list(map(json.loads, re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_adds_an_element_an_attribute_or_an_address(rich, payload):
    page = render(rich(payload))
    harmless = re.sub("[^/.]", "b", payload)  # of a key, these tell suite and set
    assert shape(page) == shape(render(rich(harmless)))
    for tag, attributes in outline(page).elements:
        assert tag != "script" or attributes in ({}, {"type": "application/json"})
        assert not [name for name in attributes if name.startswith("on")]
        for name in ADDRESSES:
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, name)
        assert STYLE.fullmatch(attributes.get("style") or "left:0%"), attributes
    text = "".join(outline(page).text)
    for part in (
        f"{payload} left 0",
        f"{payload} is broken",
        f"{payload} rule",
    ):
        assert part in text
    titles = [chart["title"] for island in islands(page) for chart in island]
    assert titles == ["training loss", f"{payload}_dev/spearman", f"{payload} term", f"{payload} term"]


def test_the_page_refuses_everything_but_its_own_script_style_and_pictures(rich):
    page = render(rich("a"))
    (policy,) = [
        attributes["content"]
        for tag, attributes in outline(page).elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    allowed = f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
    assert policy is not None
    assert policy.startswith(
        f"default-src 'none'; script-src '{allowed}'; img-src data:; style-src 'unsafe-i"
    )
    assert not re.search(r"https?:|//[a-z]|url\(|@import", page.replace("http://www.w3.org/2000/svg", ""))
