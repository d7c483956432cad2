"""Where conf/ is, what stands in it, and what a paper leaves open in an experiment."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from embedrun.console import clean

_PACKAGE = Path(__file__).resolve().parents[1]


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


_MARK = re.compile(r"\bassumed\b|\bdoes not name\b|\bis not named\b", re.IGNORECASE)
_ITEM = re.compile(r"\s*- ")
_SENTENCE = re.compile(r"(?<=[.:;])\s+(?=[A-Z])")
_WIDTH = 108  # letters of a line


class Open(NamedTuple):
    """What one experiment chose.

    Args:
        experiment: its name.
        choices: a text each.
    """

    experiment: str
    choices: list[str]


def left_open(experiments: Sequence[str], folders: Sequence[Path] = ()) -> list[Open]:
    """What the experiments chose, and those that they build on; what says nothing is left out.

    Args:
        experiments: names, as `+experiment=` has them.
        folders: preset folders beside ours, which come behind it.
    """
    found: list[Open] = []
    seen: set[str] = set()
    waiting = list(experiments)
    while waiting:
        name = waiting.pop(0)
        text = _text(name, [folder(), *folders])
        if name in seen or text is None:
            continue
        seen.add(name)
        if choices := choices_of(text):
            found.append(Open(name, choices))
        waiting += _parents(name, text)
    return found


def named(overrides: Sequence[str]) -> list[str]:
    """The experiments that the overrides choose."""
    found = []
    for override in overrides:
        key, _, value = override.partition("=")
        if key.lstrip("+") == "experiment":
            found += [name.strip(" '\"") for name in value.strip("[]").split(",")]
    return found


def choices_of(text: str) -> list[str]:
    """The choices that the comments at the head of an experiment list.

    A list behind a sentence with the word `assumed` is one choice an item; words of that sentence behind its
    colon are one more. Where no list follows, it is the rest of the paragraph, a choice a sentence.

    Args:
        text: of the file.
    """
    choices: list[str] = []
    for paragraph in _paragraphs(text):
        place = next((at for at, part in enumerate(paragraph) if _marked(part)), None)
        if place is None:
            continue
        first, rest = _behind(paragraph[place]), paragraph[place + 1 :]
        items = [_ITEM.sub("", part, count=1) for part in rest if _ITEM.match(part)]
        choices += [*([first] if first else []), *(items or rest)]
    return choices


def _marked(part: str) -> bool:
    return not _ITEM.match(part) and _MARK.search(part) is not None


def _behind(sentence: str) -> str:
    """What a sentence says of a choice: behind its colon where it introduces it, else all of it."""
    lead, colon, rest = sentence.partition(":")
    if colon and _MARK.search(lead):
        return rest.strip().removesuffix(", and")
    return sentence.strip()


def _paragraphs(text: str) -> list[list[str]]:
    """The comments before the first option: sentences and items of lists, a list for each paragraph."""
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        words = line[1:]
        if not words.strip():
            paragraphs.append([])
        elif _ITEM.match(words):
            paragraphs[-1].append(words)
        elif paragraphs[-1] and (not _ITEM.match(paragraphs[-1][-1]) or words.startswith("    ")):
            paragraphs[-1][-1] += " " + words.strip()
        else:
            paragraphs[-1].append(words.strip())
    return [
        [part for one in paragraph for part in ([one] if _ITEM.match(one) else _SENTENCE.split(one))]
        for paragraph in paragraphs
    ]


def _text(name: str, folders: Sequence[Path]) -> str | None:
    """The file of an experiment, from the first folder that has it."""
    for folder in folders:
        file = folder / "experiment" / f"{name}.yaml"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None


def _parents(name: str, text: str) -> list[str]:
    """The experiments that one builds on."""
    import yaml

    data = yaml.safe_load(text)
    defaults = data.get("defaults", []) if isinstance(data, dict) else []
    inside = name.rpartition("/")[0]
    plain = [one for one in defaults if isinstance(one, str) and one != "_self_"]
    return [
        one.removeprefix("/experiment/") if one.startswith("/") else f"{inside}/{one}".lstrip("/")
        for one in plain
    ]


def lines(found: Sequence[Open]) -> list[str]:
    """The same as lines of text; empty where nothing is open."""
    shown = []
    for place, one in enumerate(found):
        builds = ", which it builds on" if place else ""
        shown += ["", clean(f"left open by the paper, and chosen in {one.experiment}{builds}:")]
        for choice in one.choices:
            shown += textwrap.wrap(
                clean(choice), _WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False
            )
    return shown
