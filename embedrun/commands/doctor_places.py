"""Where data, models and runs lie, whether there is room, and whether the hub answers."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedrun.commands.doctor_findings import Finding
from embedrun.config import presets
from embedrun.errors import DataError

HUB = "https://huggingface.co"
_PATIENCE = 3.0  # seconds
_LEAST = 64 * 2**20  # bytes; the quickstart leaves about 20 MiB
_YES = ("1", "on", "yes", "true")
_NAMED = 5  # presets


def findings(data_dir: str | None) -> Iterator[Finding]:
    """All of it.

    Args:
        data_dir: the data store that the user named.
    """
    conf = presets.folder()
    there = (conf / "experiment" / "quickstart.yaml").is_file()
    yield Finding("presets", "ok" if there else "fault", f"{conf}" if there else f"no quickstart in {conf}")
    yield runs_folder(Path("outputs"))
    yield from _data(data_dir)
    yield _models()
    yield hub()


def runs_folder(folder: Path) -> Finding:
    """Whether runs can be written below a folder, which may not be there yet; it is left as it is."""
    if os.path.lexists(folder) and not folder.is_dir():
        return Finding("runs", "fault", f"{folder} is no folder; move it away, or go to another folder")
    above = folder if folder.is_dir() else folder.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=above) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(above).free
    except OSError as fault:
        return Finding(
            "runs", "fault", f"{folder} cannot be written ({fault.strerror}); go to another folder"
        )
    room = f"{folder}, {_size(free)} free"
    if free < _LEAST:
        return Finding("runs", "fault", f"{room}; a run needs {_size(_LEAST)} or more")
    return Finding("runs", "ok", room)


def _data(data_dir: str | None) -> Iterator[Finding]:
    from embedrun.dataset.named import presets_by_data_set
    from embedrun.store import Store
    from embedrun.store.catalogue import Catalogue

    store, catalogue = Store.find(data_dir), Catalogue.read()
    if not store.root.is_dir():
        yield Finding("data", "note", f"no folder {store.root}; embedrun data get NAME fills it")
        return
    try:
        manifest = store.manifest if store.has("MANIFEST.json") else []
    except DataError as fault:
        yield Finding("data", "note", "; ".join(fault.problems))
        return
    whole, short = sizes(store, manifest)
    text = f"{store.root}, {len(whole)} of {len(manifest)} files whole by their size"
    text += f"; of another size: {', '.join(short)}; embedrun data check says more" if short else ""
    yield Finding("data", "note" if short or not whole else "ok", text)
    here = {name for name, one in catalogue.data_sets.items() if whole & set(one.files)}
    lacking = {
        preset
        for name, every in presets_by_data_set(store, catalogue).items()
        if name not in here
        for preset in every
    }
    every = presets.groups().get("experiment", [])
    served = [name for name in every if name not in lacking]
    named = ", ".join(served[:_NAMED]) + (f" and {len(served) - _NAMED} more" if len(served) > _NAMED else "")
    text = f"{len(served)} of {len(every)} have data here, whole or a part: {named}"
    yield Finding("data of presets", "ok", text)


def sizes(store: Any, manifest: list[dict[str, Any]]) -> tuple[set[str], list[str]]:
    """The files that have the size the manifest says, and those of another; what is missing is neither."""
    whole, short = set(), []
    for entry in manifest:
        if store.has(entry["path"]):
            fits = store.path(entry["path"]).stat().st_size == entry["bytes"]
            whole |= {entry["path"]} if fits else set()
            short += [] if fits else [entry["path"]]
    return whole, short


def _models() -> Finding:
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE)
    there = sorted(path.name for path in folder.glob("models--*")) if folder.is_dir() else []
    above = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = _size(shutil.disk_usage(above).free)
    writable = "" if os.access(above, os.W_OK) else ", not writable"
    return Finding(
        "models", "note" if writable else "ok", f"{folder}, {len(there)} models, {free} free{writable}"
    )


def hub() -> Finding:
    """Whether the hub answers; with HF_HUB_OFFLINE set it is not asked."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in _YES:
        return Finding("hub", "note", "not asked: HF_HUB_OFFLINE is set, so that nothing is downloaded")
    import threading

    # A time-out of the request does not bound the look-up of the host's name.
    said: list[str] = []
    asked = threading.Thread(target=lambda: said.append(_ask()), daemon=True)
    asked.start()
    asked.join(_PATIENCE + 1)
    answer = said[0] if said else f"no answer in {_PATIENCE:g} s"
    if answer:
        return Finding(
            "hub", "note", f"{HUB} cannot be reached ({answer}); models and data must be here already"
        )
    return Finding("hub", "ok", f"{HUB} answers")


def _ask() -> str:
    """Empty where the hub answers, else why not."""
    import urllib.error
    import urllib.request

    try:
        request = urllib.request.Request(HUB, method="HEAD")
        with urllib.request.urlopen(request, timeout=_PATIENCE):
            return ""
    except urllib.error.HTTPError:
        return ""  # it has answered
    except (OSError, ValueError) as fault:
        return " ".join(str(getattr(fault, "reason", fault)).split())


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 / 10 else f"{count / 2**20:.0f} MiB"
