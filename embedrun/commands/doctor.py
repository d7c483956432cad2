"""What this machine has for embedrun: versions, device, precision, data, hub, disk; exit 1 if it cannot run.

The last line says whether the quickstart can run here. Nothing is downloaded, and no file is left behind.
"""

import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from embedrun import __version__, family
from embedrun.commands.command_line import Parser
from embedrun.config import presets
from embedrun.console import clean, fitted, room, size, wrapped
from embedrun.errors import UNEXPECTED, DataError, install_extra
from embedrun.files import to_printed_json

_EXAMPLES = """examples:
  embedrun doctor
  embedrun doctor --json > machine.json"""
HUB = "https://huggingface.co"
_PATIENCE = 3.0  # seconds
_LEAST = 64 * 2**20  # bytes; the quickstart leaves about 20 MB
_GAINS = 1.3  # products in bfloat16 so many times as fast; less is lost around them again
_CPU_BF16 = ("amx_bf16", "avx512_bf16", "bf16")  # of /proc/cpuinfo, fastest first; the last is of ARM
# What each extra is for; an extra for working on embedrun itself is not listed.
EXTRAS = {
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
    findings = [*packages(), *_machine(), *_places(arguments.data_dir)]
    faults = [finding for finding in findings if finding.state == "fault"]
    if arguments.json:
        checks = [finding._asdict() for finding in findings]
        print(to_printed_json({"schema": 1, "quickstart": not faults, "checks": checks}))
    else:
        print(fitted([["what", "state", "found"], *map(list, findings)], room()))
        print()
        for fault in faults:
            print(wrapped(clean(f"{fault.what}: {fault.found}"), room()))
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


def packages() -> Iterator[Finding]:
    """Python, embedrun, the packages that every command needs, the extras, and what others add."""
    yield Finding("python", "ok", platform.python_version())
    yield Finding("embedrun", "ok", __version__)
    try:
        requirements = requires("embedrun") or []
    except PackageNotFoundError:
        yield Finding("packages", "note", "embedrun is not installed, so what it needs is not known")
        return
    for text in requirements:
        if "extra ==" not in text:
            yield _package(text)
    for extra, use in EXTRAS.items():
        yield _extra(extra, [text for text in requirements if re.search(f"extra == .{extra}\\b", text)], use)
    for point in family.installed():
        kind = point.group.removeprefix("embedrun.")
        try:
            family.find(kind, point.name)
        except family.Unloadable as fault:
            yield Finding(f"{kind} {point.name}", "note", fault.problems[0])
        else:
            yield Finding(f"{kind} {point.name}", "ok", f"{point.value} of {family.package_of(point)}")


def _package(text: str) -> Finding:
    """A package that every command needs; a faulty one keeps the quickstart from running."""
    from packaging.requirements import Requirement

    requirement = Requirement(text)
    installed = _version(text)
    if installed is None:
        return Finding(requirement.name, "fault", f"not installed; pip install '{text}'")
    if not requirement.specifier.contains(installed, prereleases=True):
        return Finding(requirement.name, "fault", f"{installed}, and it takes {text}; pip install '{text}'")
    return Finding(requirement.name, "ok", installed)


def _extra(extra: str, requirements: Sequence[str], use: str) -> Finding:
    versions = {re.split(r"[^\w.-]", text)[0]: _version(text) for text in requirements}
    if not versions:
        why = f"not known; embedrun was installed before it had this: {use}"
    elif None in versions.values():
        why = f"not installed; for {use}: {install_extra(extra)}"
    else:
        have = ", ".join(f"{name} {installed}" for name, installed in versions.items())
        return Finding(f"extra {extra}", "ok", f"{have}: {use}")
    return Finding(f"extra {extra}", "note", why)


def _version(requirement: str) -> str | None:
    """The version of the package that a requirement names; None: it is not installed."""
    try:
        return version(re.split(r"[^\w.-]", requirement)[0])
    except PackageNotFoundError:
        return None


def _machine() -> Iterator[Finding]:
    """System, processor, memory, text encoding, threads, device."""
    yield Finding("system", "ok", platform.platform())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("processor", "ok", f"{platform.machine()}, {cores} of {os.cpu_count()} cores available")
    page = os.sysconf("SC_PAGE_SIZE")
    whole, free = (size(page * os.sysconf(name)) for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
    yield Finding("memory", "ok", f"{whole}, {free} unused")
    yield text_finding(sys.stdout.encoding)
    try:
        import torch
    except Exception as fault:  # a library that does not load raises what it likes
        yield Finding("torch", "fault", f"cannot be used: {' '.join(str(fault).split())}")
        return
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    given = "".join(f", {name}={os.environ[name]}" for name in names if name in os.environ)
    yield Finding("threads", "ok", f"{torch.get_num_threads()} of torch{given}")
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split()) if cpuinfo.is_file() else set()
    speed = bf16_training(_bf16_speed())
    yield Finding("processor precision", "ok", f"fp32; {cpu_bf16(flags)}; {speed}")
    if not torch.cuda.is_available():
        yield Finding("gpu", "note", "none that CUDA can use; gpu=cpu and gpu=auto train on the processor")
        return
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        kinds = ["fp32", "fp16"]
        kinds += ["tf32"] if (properties.major, properties.minor) >= (8, 0) else []
        with torch.cuda.device(index):
            kinds += ["bf16"] if torch.cuda.is_bf16_supported(False) else []
        has = f"{size(properties.total_memory)}, CUDA {torch.version.cuda}"
        yield Finding(f"gpu {index}", "ok", f"{properties.name}, {has}: {', '.join(kinds)}")


def text_finding(encoding: str | None) -> Finding:
    """Whether standard output takes every letter."""
    if "utf" in (encoding or "").lower():
        return Finding("text", "ok", f"output {encoding}")
    advice = "set LC_ALL=C.UTF-8 or PYTHONUTF8=1, or letters beyond ASCII may not be shown"
    return Finding("text", "note", f"output {encoding}; {advice}")


def cpu_bf16(flags: set[str]) -> str:
    """Whether a processor with these flags, as Linux names them, computes in bfloat16."""
    fastest = next((flag for flag in _CPU_BF16 if flag in flags), None)
    return "bf16 is emulated, slower than fp32" if fastest is None else f"bf16 in hardware ({fastest})"


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


def _places(data_dir: str | None) -> Iterator[Finding]:
    """Presets, folder of runs, data store (`data_dir`, where the user named it), models, hub."""
    from huggingface_hub.constants import HF_HUB_CACHE

    conf = presets.folder()
    there = (conf / "experiment" / "quickstart.yaml").is_file()
    yield Finding("presets", "ok" if there else "fault", f"{conf}" if there else f"no quickstart in {conf}")
    yield runs_folder(Path("outputs"))
    yield from _data(data_dir)
    models = len(list(Path(HF_HUB_CACHE).glob("models--*")))
    yield Finding("models", "ok", f"{HF_HUB_CACHE}, {models} models")
    yield hub()


def runs_folder(folder: Path) -> Finding:
    """Whether runs can be written below a folder, which need not exist; it is left as it is."""
    above = folder if folder.exists() else folder.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=above) as file:
            file.write(bytes(4096))
        free = shutil.disk_usage(above).free
    except OSError as fault:
        return Finding("runs", "fault", f"{folder} takes no runs ({fault.strerror}); go to another folder")
    if free < _LEAST:
        return Finding("runs", "fault", f"{folder}, {size(free)} free; a run needs {size(_LEAST)} or more")
    return Finding("runs", "ok", f"{folder}, {size(free)} free")


def _data(data_dir: str | None) -> Iterator[Finding]:
    from embedrun.dataset.named import presets_by_data_set
    from embedrun.store import Store, cache
    from embedrun.store.catalogue import Catalogue

    kept = cache.entries()
    clean_up = "; embedrun data clean removes it" if kept else ""
    yield Finding("prepared data", "ok", f"{cache.folder()}, {cache.summary(kept)}{clean_up}")
    store, catalogue = Store.find(data_dir), Catalogue.read()
    if not store.root.is_dir():
        yield Finding("data", "note", f"no folder {store.root}; embedrun data get NAME fills it")
        return
    try:
        manifest = store.manifest if store.has("MANIFEST.json") else []
    except DataError as fault:
        yield Finding("data", "note", "; ".join(fault.problems))
        return
    files = {entry["path"] for entry in manifest if store.has(entry["path"])}
    text = f"{store.root}, {len(files)} of {len(manifest)} files; embedrun data check reads them"
    yield Finding("data", "ok" if files else "note", text)
    here = {name for name, entry in catalogue.data_sets.items() if files & set(entry.files)}
    by_data_set = presets_by_data_set(store, catalogue)
    lacking = {preset for name, needed in by_data_set.items() if name not in here for preset in needed}
    experiments = presets.groups().get("experiment", [])
    served = [name for name in experiments if name not in lacking]
    text = f"{len(served)} of {len(experiments)} have data here, complete or in part: {', '.join(served)}"
    yield Finding("data of presets", "ok", text)


def hub() -> Finding:
    """Whether the hub answers; with HF_HUB_OFFLINE set it is not asked."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return Finding("hub", "note", "not asked: HF_HUB_OFFLINE is set, so that nothing is downloaded")
    try:
        get_session().head(HUB, timeout=_PATIENCE)
    except Exception as fault:  # those of its client have no common class
        why = " ".join(str(fault).split())
        advice = "models and data must be here already"
        return Finding("hub", "note", f"{HUB} cannot be reached ({why}); {advice}")
    return Finding("hub", "ok", f"{HUB} answers")
