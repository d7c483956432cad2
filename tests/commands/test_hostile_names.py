"""Names and texts of others in every table, page and list: they are text there, and nothing else.

The runs are written by hand, as a folder from elsewhere may hold them: each has one hostile text wherever a
run says something of itself.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from embedrun.console import clean
from embedrun.table.formats import FORMATS

HOSTILE = (
    r"\input{/etc/passwd}", r"\write18{id}", r"&%$#_{}~^\ ".strip(), r"$\frac", "$x$", "a|b", "a||b\\|",
    "two\nlines", "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\t-5", "\uff1d1+1",
    "-5", "nan", "1e999", "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<!--",
    '"><img src=x onerror=alert(1)>', "]]>", "&lt;b&gt;", "[a](javascript:alert(1))",
    "![](http://example.org)", "`code` ```` *b* ~~s~~", "# h", "${jndi:ldap://example.org}", "{{ 7 * 7 }}",
    "%s{0}", "--help", "~nobody/x", "a b'c\"d", "a;b,c=d", "\x1b]0;title\x07", "\x1b[2J", "\x9b2J", "\x00",
    "\x85", "\u2028\u2029", "\u202egnp.exe", "\u2066x", "zero\u200bwidth\ufeff", "é ß 中文 🙂", "x" * 10_000,
)  # fmt: skip
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# What the LaTeX of a table may ask TeX to do; none of it reads or writes files.
TEX = {
    "begin", "end", "centering", "caption", "footnotesize", "toprule", "midrule", "bottomrule", "multicolumn",
    "textbf", "par", "raggedright", "textbackslash", "textasciicircum", "textasciitilde", "textless", "char",
    "textgreater", "textbar", "textasciigrave", "pm", "times", "circ",
}  # fmt: skip
LABEL = ("--label", "dataset.path", "--columns", "dataset.path,backbone.name,sts/x/spearman")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs, one for each hostile text; one is below a folder whose name is not UTF-8."""
    folder = tmp_path_factory.mktemp("from elsewhere")
    for number, text in enumerate(HOSTILE):
        put(folder / f"{number:02}", number, text)
    put(Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe")) / "99", 99, "plain")
    return folder


def put(run: Path, number: int, text: str) -> None:
    run.mkdir(parents=True)
    key = f"sts/{text}/spearman"
    config = {
        "schema": 1, "name": "x", "seed": 1, "dataset": {"path": text}, "backbone": {"name": text},
        "tracking": {"project": text, "tags": [text]}, "loss": {"terms": {text: {"weight": 1.0}}},
    }  # fmt: skip
    metrics = [
        {"step": 1, "epoch": 0.0, "split": split, "name": name, "value": 1.0}
        for split, name in (("train", "loss"), ("train", text), ("dev", text))
    ]
    held: dict[str, Any] = {
        "config.yaml": config,
        "choices.yaml": {"experiment": text, "dataset": text},
        "overrides.yaml": [f"dataset.path={text}"],
        "status.json": {"state": "finished", "started": "2026-01-01T00:00:00+00:00", "error": text},
        "environment.json": {"command": text, "versions": {text: text}, "data": {text: text}, "gpu": [text],
                             "code": {"commit": text, "dirty": True}},
        "results.json": {"schema": 1, "main": {"name": key, "value": 80.0}, "intervals": {key: [70.0, 90.0]},
                         "scores": {key: 80.0, "sts/x/spearman": 70.0 + number / 100},
                         "baseline": {key: 20.0}, "counts": {text: 3},
                         "notes": {"selected_by": text, "pooling": text, text: text}},
        "contamination.json": {text: text},
    }  # fmt: skip
    for name, content in held.items():
        write = yaml.safe_dump if name.endswith(".yaml") else json.dumps
        (run / name).write_text(write(content), encoding="utf-8")
    (run / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in metrics), encoding="utf-8")


def tex_problems(text: str) -> Iterator[str]:
    """What TeX would not take for text or for a command of ours, as its category codes are in a document."""
    bare = re.sub(r"(?m)^%.*$", "", text)
    bare = re.sub(r"\$(\\pm|\\times|\^\\circ|[+-]\d[\d.]*)\$", "", bare)
    rows = [line for line in bare.splitlines() if line.endswith(r"\\")]
    if len(cells := {len(re.findall(r"(?<!\\)&", row)) for row in rows}) != 1:
        yield f"rows of {cells} cells"
    for command in re.findall(r"(?s)\\([A-Za-z]+|.)", bare):
        if command not in TEX and command not in r"\&%$#_{}":
            yield command
    bare = re.sub(r"(?s)\\([A-Za-z]+|.)", "", bare)
    yield from re.findall(r'[\\%$#_~^"<>|`]|[^\n -~À-ÿ]', bare)
    while (shorter := re.sub(r"\{[^{}]*\}", "", bare)) != bare:
        bare = shorter
    yield from re.findall("[{}]", bare)


def texts(data: object) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from texts(value)
    elif isinstance(data, str):
        yield data


def strict(text: str) -> Any:
    """JSON as RFC 8259 has it: no NaN, and all text can be written as UTF-8."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(word)

    data = json.loads(text, parse_constant=refuse)
    for one in texts(data):
        one.encode("utf-8")
    return data


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def harmless(page: str, scripts: int) -> None:
    assert CONTROL.search(page) is None
    elements = Elements(page).found
    assert [tag for tag, _ in elements].count("script") == scripts
    assert not {"iframe", "object", "embed", "base", "form"} & {tag for tag, _ in elements}
    for tag, attributes in elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("href", "src", "action", "srcset", "data", "xlink:href"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#", "./")), (tag, attributes)


@pytest.fixture
def said(embedrun, runs: Path):
    """What a command prints of the runs; it ends well and writes no control character anywhere."""

    def run(*words: str | Path) -> str:
        ended = embedrun(*words)
        assert ended.code == 0, ended.err
        assert CONTROL.search(ended.out + ended.err) is None
        return ended.out

    return run


@pytest.mark.parametrize("more", [(), LABEL])
def test_latex_holds_no_command_and_no_sign_but_ours(said, runs, more):
    assert [*tex_problems(said("table", runs, "--format", "latex", *more))] == []


def test_what_tex_would_take_for_more_than_text_is_found():
    row = "a & b \\\\\n"
    for bad in (
        r"\input{x}",
        "50 %",
        "a_b",
        "$x$",
        "x^2",
        "~",
        "#1",
        "{",
        "}",
        r"\^x",
        '"a',
        "中",
        "a & b & c \\\\",
    ):
        assert [*tex_problems(f"{row}{bad}\n")], bad
    assert [*tex_problems(f"{row}50 \\% of {{[}}a\\_b{{]}} $\\pm$ $-0.5$\n% any #thing\n")] == []


@pytest.mark.parametrize("more", [(), LABEL])
def test_csv_is_read_back_and_no_cell_is_a_formula(said, runs, more):
    rows = list(csv.reader(io.StringIO(said("table", runs, "--format", "csv", *more), newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}
    for cell in (cell for row in rows for cell in row):
        assert not re.match("[=+@\t\r\n\uff1d-]", cell) or re.fullmatch(r"[+-]?\d+(\.\d+)?", cell), cell


def test_csv_has_every_text_as_it_is(said, runs):
    rows = csv.DictReader(io.StringIO(said("table", runs, "--format", "csv", *LABEL), newline=""))
    told = {row["dataset.path"].removeprefix("'") for row in rows}
    assert {" ".join(clean(text).split()) for text in HOSTILE if len(text) < 30} <= told


@pytest.mark.parametrize("more", [(), LABEL])
def test_every_row_of_markdown_is_one_line_and_no_html_or_link_passes(said, runs, more):
    text = said("table", runs, "--format", "md", *more)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    bare = [re.sub(r"\\[!-/:-@\[-`{-~]", "", row) for row in rows]  # a backslash takes a sign its meaning
    assert len(rows) >= len(HOSTILE)
    assert len({row.count("|") for row in bare}) == 1
    assert not re.search(r"[\\<>&`\[\]*~]|://", "".join(bare))
    assert [line for line in text.splitlines() if line and not line.startswith(("|", "### "))] == []


@pytest.mark.parametrize("words", [("table", "--format", "json"), ("table", "--format", "json", *LABEL)])
def test_json_of_a_table_is_strict(said, runs, words):
    assert strict(said(words[0], runs, *words[1:]))["tables"]


def test_the_list_of_runs_has_one_line_each_and_its_json_is_strict(said, runs):
    lines = said("runs", runs, "--columns", "dataset.path,state").splitlines()
    assert len(lines) == len(HOSTILE) + 3
    assert len(strict(said("runs", runs, "--json"))["runs"]) == len(HOSTILE) + 1


def test_the_difference_of_any_two_is_told(said, runs):
    for number in range(1, len(HOSTILE)):
        said("runs", "--diff", runs / "00", runs / f"{number:02}", "--draws", "100")
    strict(said("runs", "--diff", runs / "00", runs / "05", "--draws", "100", "--json"))


def test_the_page_over_all_runs_has_no_script_but_its_own_and_no_address(said, runs, tmp_path):
    said("report", runs, "-o", tmp_path / "all.html")
    harmless((tmp_path / "all.html").read_text(encoding="utf-8"), scripts=2)


def test_the_page_of_each_run_has_its_own_scripts_alone_and_no_address(said, runs, tmp_path):
    for number in range(len(HOSTILE)):
        said("report", runs / f"{number:02}", "-o", tmp_path / "one.html")
        harmless(
            (tmp_path / "one.html").read_text(encoding="utf-8"), scripts=3
        )  # data, charts, and what draws them


@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_whose_name_is_not_utf8_is_shown_like_any_other(said, runs, tmp_path, form):
    (odd,) = (path for path in runs.iterdir() if not path.name.isascii())
    said("table", odd, "--format", form)
    strict(said("runs", odd, "--json"))
    said("runs", odd)
    assert said("runs", "--diff", odd / "99", runs / "00").startswith("A")
    assert said("report", odd / "99", "-o", odd / "page.html") == f"{runs}/\ufffd\ufffd/page.html\n"
