"""What this machine has for embedrun: versions, device, precision, data, hub, disk; exit 1 if it cannot run.

The last line says whether the quickstart can run here. Nothing is downloaded, and no file is left behind.
"""

import locale
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from embedrun import __version__, family
from embedrun.commands.command_line import Parser
from embedrun.config import presets
from embedrun.console import clean, fitted, room, size, wrapped
from embedrun.errors import UNEXPECTED, DataError, install_extra
from embedrun.files import Plain, to_printed_json

if TYPE_CHECKING:
    from embedrun.store import Store

_EXAMPLES = """examples:
  embedrun doctor
  embedrun doctor --json > machine.json"""


def parser() -> Parser:
    """The parser of `embedrun doctor`."""
    made = Parser("embedrun doctor", description=__doc__, examples=_EXAMPLES)
    made.add_argument("--json", action="store_true", help="print everything as one JSON object")
    made.add_argument("--data-dir", metavar="DIR", help="the data store; else as every command finds it")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun doctor`; exit code 1 if the quickstart cannot run here."""
    arguments = parser().read(argv)
    if arguments is None:
        return 0
    found = [
        *_of_packages(),
        *_of_machine(),
        *_of_places(arguments.data_dir),
    ]
    faults = [one for one in found if one.state == "fault"]
    if arguments.json:
        checks = [one._asdict() for one in found]
        print(to_printed_json({"schema": 1, "quickstart": not faults, "checks": checks}))
    else:
        cells = [["what", "state", "found"]]
        cells += [[one.what, one.state, one.found] for one in found]
        print(fitted(cells, room()))
        print()
        for one in faults:
            print(wrapped(clean(f"{one.what}: {one.found}"), room()))
        no = "the quickstart cannot run here" if faults else "the quickstart can run here"
        print(f"{no}: embedrun train +experiment=quickstart")
    return UNEXPECTED if faults else 0


class Finding(NamedTuple):
    """`what` was looked at, and what was `found`, in words.

    `state` is `note` where a feature is missing, `fault` where the quickstart cannot run.
    """

    what: str
    state: Literal["ok", "note", "fault"]
    found: str


_CPU_BF16 = ("amx_bf16", "avx512_bf16", "bf16")  # of /proc/cpuinfo, fastest first; the last is of ARM


def _of_machine() -> Iterator[Finding]:
    """System, processor, memory, device, text encoding."""
    yield Finding("system", "ok", platform.platform())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("processor", "ok", f"{platform.machine()}, {cores} of {os.cpu_count()} cores available")
    yield Finding("memory", "ok", memory())
    yield from _torch()
    yield text_finding(sys.stdout.encoding, locale.getpreferredencoding(False))


def memory() -> str:
    """Total and free memory."""
    pages = {name: os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES", "SC_PAGE_SIZE")}
    whole = pages["SC_PHYS_PAGES"] * pages["SC_PAGE_SIZE"]
    free = pages["SC_AVPHYS_PAGES"] * pages["SC_PAGE_SIZE"]
    return f"{size(whole)}, {size(free)} unused"


def text_finding(output: str | None, files: str) -> Finding:
    """Whether text is written as UTF-8: to standard output, and to `files` without a named encoding."""
    both = f"output {output}, files {files}"
    if "utf" in (output or "").lower() and "utf" in files.lower():
        return Finding("text", "ok", both)
    advice = "set LC_ALL=C.UTF-8 or PYTHONUTF8=1, or letters beyond ASCII may not be shown"
    return Finding("text", "note", f"{both}; {advice}")


def _torch() -> Iterator[Finding]:
    try:
        import torch

        product = (torch.ones(2, 2) @ torch.ones(2, 2)).sum().item()
    except Exception as fault:  # a library that does not load raises what it likes
        yield Finding("torch", "fault", f"cannot be used: {' '.join(str(fault).split())}")
        return
    if product != 8:
        yield Finding("torch", "fault", "a matrix product is wrong")
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    given = "".join(f", {name}={os.environ[name]}" for name in names if name in os.environ)
    yield Finding("threads", "ok", f"{torch.get_num_threads()} of torch{given}")
    speed = bf16_training(_bf16_speed())
    yield Finding("processor precision", "ok", f"fp32; {cpu_bf16(_cpu_flags())}; {speed}")
    if not torch.cuda.is_available():
        why = f"; this torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else ""
        yield Finding(
            "gpu", "note", f"none that CUDA can use{why}; gpu=cpu and gpu=auto train on the processor"
        )
        return
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        kinds = ["fp32", "fp16"]
        kinds += ["tf32"] if (properties.major, properties.minor) >= (8, 0) else []
        with torch.cuda.device(index):
            kinds += ["bf16"] if torch.cuda.is_bf16_supported(False) else []
        has = f"{size(properties.total_memory)}, CUDA {torch.version.cuda}"
        yield Finding(f"gpu {index}", "ok", f"{properties.name}, {has}: {', '.join(kinds)}")


def _cpu_flags() -> set[str]:
    try:
        return set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return set()


def cpu_bf16(flags: set[str]) -> str:
    """Whether a processor with these flags, as Linux names them, computes in bfloat16."""
    found = next((flag for flag in _CPU_BF16 if flag in flags), None)
    return "bf16 is emulated, slower than fp32" if found is None else f"bf16 in hardware ({found})"


_GAINS = 1.3  # products so many times as fast; less is lost around them again


def bf16_training(speed: float) -> str:
    """Whether training gains where matrix products in bfloat16 are `speed` times as fast as in float32."""
    gains = "trains faster here" if speed >= _GAINS else "trains no faster here"
    return f"a product is {speed:.1f} times as fast as in fp32, so gpu.precision=bf16 {gains}"


def _bf16_speed() -> float:
    """The product of a small model's layer and 512 tokens, the best of a few; under a tenth of a second."""
    import torch

    def seconds(dtype: torch.dtype) -> float:
        tokens, weight = torch.ones(512, 384, dtype=dtype), torch.ones(1536, 384, dtype=dtype)
        spent = []
        for _ in range(4):  # the first chooses the kernel
            start = time.perf_counter()
            torch.nn.functional.linear(tokens, weight)  # (512, 1536)
            spent.append(time.perf_counter() - start)
        return min(spent)

    return seconds(torch.float32) / seconds(torch.bfloat16)


# What each extra is for; an extra for working on embedrun itself is not listed.
EXTRAS = {
    "fast": "SentEval in a fraction of the time",
    "mteb": "evaluation=mteb",
    "qlora": "backbone.adapter.quantize=nf4, with CUDA",
    "tensorboard": "tracking=tensorboard",
    "sweep": "hydra/launcher=joblib",
    "slurm": "hydra/launcher=submitit_local and submitit_slurm",
    "hpo": "embedrun tune",
    "generate": "embedrun generate with an OpenAI-compatible endpoint",
    "collect": "embedrun collect",
    "mine": "embedrun annotate mode=mine",
}
_EXTRA = re.compile(r"extra\s*==\s*['\"](\w+)['\"]")
_LEAST_PYTHON = (3, 11)


def _of_packages() -> Iterator[Finding]:
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
    for point in family.installed():
        kind = point.group.removeprefix("embedrun.")
        try:
            family.find(kind, point.name)
        except family.Unloadable as fault:
            yield Finding(f"{kind} {point.name}", "note", fault.problems[0])
        else:
            yield Finding(f"{kind} {point.name}", "ok", f"{point.value} of {family.package_of(point)}")


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
        return Finding(f"extra {extra}", "note", f"not installed; for {use}: {install_extra(extra)}")
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


HUB = "https://huggingface.co"
_PATIENCE = 3.0  # seconds
_LEAST = 64 * 2**20  # bytes; the quickstart leaves about 20 MB
_YES = ("1", "on", "yes", "true")
_NAMED = 5  # presets


def _of_places(data_dir: str | None) -> Iterator[Finding]:
    """Presets, folder of runs, data store (`data_dir`, where the user named it), models, hub."""
    conf = presets.folder()
    there = (conf / "experiment" / "quickstart.yaml").is_file()
    yield Finding("presets", "ok" if there else "fault", f"{conf}" if there else f"no quickstart in {conf}")
    yield runs_folder(Path("outputs"))
    yield from _data(data_dir)
    yield _models()
    yield hub()


def runs_folder(folder: Path) -> Finding:
    """Whether runs can be written below a folder, which need not exist; it is left as it is."""
    if os.path.lexists(folder) and not folder.is_dir():
        return Finding("runs", "fault", f"{folder} is not a folder; move it away, or go to another folder")
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
    room = f"{folder}, {size(free)} free"
    if free < _LEAST:
        return Finding("runs", "fault", f"{room}; a run needs {size(_LEAST)} or more")
    return Finding("runs", "ok", room)


def _data(data_dir: str | None) -> Iterator[Finding]:
    from embedrun.dataset.named import presets_by_data_set
    from embedrun.store import Store, cache
    from embedrun.store.catalogue import Catalogue

    kept = cache.entries()
    # A clock that has been set back since is no reason for days to come.
    days = max(0.0, time.time() - kept[0].used) / 86_400 if kept else 0.0
    age = f", last used {days:.0f} days ago" if kept else ""
    way_on = "; embedrun data clean removes it" if kept else ""
    yield Finding("prepared data", "ok", f"{cache.folder()}, {cache.summary(kept)}{age}{way_on}")
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
    text = f"{len(served)} of {len(every)} have data here, complete or in part: {named}"
    yield Finding("data of presets", "ok", text)


def sizes(store: "Store", manifest: list[Plain]) -> tuple[set[str], list[str]]:
    """The files of the size in the manifest, and those of another; missing files are in neither."""
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
    free = size(shutil.disk_usage(above).free)
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
