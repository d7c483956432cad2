"""The comments of the files in conf/, kept beside the options that a composed configuration shows."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import yaml

Path = tuple[str, ...]  # keys from the root; () is the whole of a file


class Comment(NamedTuple):
    """The lines above an option, and what stands behind its value; each with its `#`."""

    above: tuple[str, ...] = ()
    behind: str = ""


def read(text: str, package: Path = ()) -> dict[Path, Comment]:
    """The comments of one YAML file by option, those at its head by `package`, where Hydra puts its options.

    Comments of the defaults list and inside lists are left out, and so are Hydra's directives.
    """
    import yaml

    lines = text.splitlines()
    node = yaml.compose(text, Loader=yaml.CSafeLoader)
    first = len(lines) if node is None else node.start_mark.line
    head = tuple(line for line in lines[:first] if line.startswith("#") and not line.startswith("# @"))
    found = {package: Comment(head)} if head else {}
    for path, key, value in _options(node):
        above = []
        for line in reversed(lines[: key.start_mark.line]):
            if key.start_mark.line <= first or not line.lstrip().startswith("#"):
                break
            above.insert(0, line.strip())
        # What stands behind a mapping or a list stands behind its key.
        ends = value.end_mark if value.start_mark.line == key.end_mark.line else key.end_mark
        rest = lines[ends.line][ends.column :].removeprefix(":").strip() if ends.line < len(lines) else ""
        if above or rest.startswith("#"):
            found[package + path] = Comment(tuple(above), rest if rest.startswith("#") else "")
    return found


def joined(files: list[dict[Path, Comment]]) -> dict[Path, Comment]:
    """The comments of files that were composed in this order: a later one is said instead of an earlier."""
    return {path: comment for one in files for path, comment in one.items()}


def commented(text: str, comments: Mapping[Path, Comment], package: Path = ()) -> str:
    """Composed YAML with the comments of its options; `package` is the part that is shown."""
    import yaml

    lines = text.splitlines()
    above: dict[int, list[str]] = {}
    for path, key, value in _options(yaml.compose(text, Loader=yaml.CSafeLoader)):
        comment = comments.get(package + path)
        if comment is None:
            continue
        line, blanks = key.start_mark.line, " " * key.start_mark.column
        said = [f"{blanks}{one}" for one in comment.above]
        # A text of several lines has no place behind it.
        if comment.behind and value.end_mark.line > line and isinstance(value, yaml.ScalarNode):
            said.append(f"{blanks}{comment.behind}")
        elif comment.behind:
            lines[line] += f"  {comment.behind}"
        above[line] = said
    body = [one for place, line in enumerate(lines) for one in [*above.get(place, []), line]]
    if head := comments.get(package, Comment()).above:
        place = 1 if lines[0].startswith("# @") else 0  # Hydra's directive is the first line of a file
        body[place:place] = [*head, ""]
    return "\n".join(body) + "\n"


def _options(node: "yaml.Node | None", path: Path = ()) -> Iterator[tuple[Path, "yaml.Node", "yaml.Node"]]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if (path, key.value) != ((), "defaults"):
                yield (*path, key.value), key, value
                yield from _options(value, (*path, key.value))
