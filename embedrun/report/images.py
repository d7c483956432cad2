"""The plots of a run as they stand in the page: PNG files in `data:` addresses, with words for each."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedrun.console import score

_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST = 4_000_000  # bytes of one file
_MOST = 40  # plots
_CURVES = "curves.png"  # loss and dev score, which the page draws itself
# How the name of a plot ends, and what it shows.
_KINDS = {
    "_density": "Density of the cosines by human score",
    "_scores": "Cosine against human score, and how both are distributed",
    "_saturation": "How many cosines lie in the saturation zone of the cosine",
}
_WHOLE = {"dropout_map": "Related sentences under many dropout masks, on a plane"}


@dataclass(frozen=True)
class Image:
    """One plot.

    Args:
        file: its name.
        address: `data:image/png;base64,...`.
        caption: below it.
        alt: in its place.
    """

    file: str
    address: str
    caption: str
    alt: str


def images(
    folder: Path, keys: Mapping[str, str], scores: Mapping[str, float]
) -> tuple[list[Image], list[str]]:
    """The plots in a folder, and why some are not shown, a line each.

    Args:
        folder: of the plots; need not exist.
        keys: of the score that a set's predictions give, by set; the plots come in this order.
        scores: by key.
    """
    found, left_out = [], []
    first = {name: place for place, name in enumerate(keys)}
    files = [path for path in sorted(folder.glob("[!.]*.png")) if path.name != _CURVES]
    files.sort(key=lambda path: first.get(_caption(path.stem)[1], len(first)))
    if len(files) > _MOST:
        left_out.append(f"{len(files) - _MOST} more plots are in {folder.name}/")
    for path in files[:_MOST]:
        try:
            data = path.read_bytes() if path.stat().st_size <= _LARGEST else b""
        except OSError as fault:
            left_out.append(f"{folder.name}/{path.name} cannot be read ({fault.strerror})")
            continue
        if not data.startswith(_PNG):
            left_out.append(f"{folder.name}/{path.name} is too large, or no PNG")
            continue
        caption, of = _caption(path.stem)
        value = scores.get(keys.get(of, ""))
        alt = caption if value is None else f"{caption}. {keys[of]} {score(keys[of], value)}"
        address = f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"
        found.append(Image(path.name, address, caption, f"Plot: {alt}."))
    return found, left_out


def _caption(stem: str) -> tuple[str, str]:
    """What a plot shows, by the name of its file, and the set that it is of."""
    for ending, what in _KINDS.items():
        if stem.endswith(ending):
            of = stem.removesuffix(ending)
            return f"{what}, {of}", of
    return _WHOLE.get(stem, stem.replace("_", " ")), ""
