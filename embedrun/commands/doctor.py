"""What this machine has for embedrun: versions, device, precision, data, hub, disk; exit 1 if it cannot run.

The last line says whether the quickstart can run here. Nothing is downloaded, and no file is left behind.
"""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.markers import Marker
from packaging.requirements import Requirement

from embedrun import __version__, family
from embedrun.commands.command_line import Parser
from embedrun.config import presets
from embedrun.console import clean, fitted, room, size, wrapped
from embedrun.errors import UNEXPECTED, DataError, install_extra
from embedrun.files import to_printed_json
from embedrun.runs.directory import processor

_EXAMPLES = """examples:
  embedrun doctor
  embedrun doctor --json > machine.json"""
HUB = "https://huggingface.co"
_PATIENCE = 3.0  # seconds
_LEAST = 64 * 2**20  # bytes; the quickstart leaves about 20 MB
# What each extra is for; an extra for working on embedrun itself is not listed.
EXTRAS = {
    "senteval": "the published protocol of evaluation=senteval",
    "mteb": "evaluation=mteb",
    "qlora": "backbone.adapter.quantize=nf4, with CUDA",
    "tensorboard": "tracking=tensorboard",
    "sweep": "hydra/launcher=joblib",
    "slurm": "hydra/launcher=submitit_local and submitit_slurm",
    "ray": "hydra/launcher=ray",
    "hpo": "embedrun tune",
    "onnx": "embedrun export --onnx",
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
        requirements = [Requirement(text) for text in requires("embedrun") or []]
    except PackageNotFoundError:
        yield Finding("packages", "note", "embedrun is not installed, so what it needs is not known")
        return
    always = [requirement for requirement in requirements if _is_of(requirement.marker, "")]
    yield from map(_needed, always)
    for extra, use in EXTRAS.items():
        names = [need.name for need in requirements if need not in always and _is_of(need.marker, extra)]
        yield _extra(extra, use, {name: _version(name) for name in names})
    yield from map(_of_others, family.installed())


def _needed(package: Requirement) -> Finding:
    installed = _version(package.name)
    if installed is not None and package.specifier.contains(installed, prereleases=True):
        return Finding(package.name, "ok", installed)
    return Finding(package.name, "fault", f"{installed or 'not installed'}; pip install '{package}'")


def _of_others(point: EntryPoint) -> Finding:
    kind = point.group.removeprefix("embedrun.")
    try:
        family.find(kind, point.name)
    except family.Unloadable as fault:
        return Finding(f"{kind} {point.name}", "note", fault.problems[0])
    return Finding(f"{kind} {point.name}", "ok", f"{point.value} of {family.package_of(point)}")


def _is_of(marker: Marker | None, extra: str) -> bool:
    return marker is None or marker.evaluate({"extra": extra})


def _extra(extra: str, use: str, versions: Mapping[str, str | None]) -> Finding:
    if not versions or None in versions.values():
        return Finding(f"extra {extra}", "note", f"not installed; for {use}: {install_extra(extra)}")
    have = ", ".join(f"{name} {installed}" for name, installed in versions.items())
    return Finding(f"extra {extra}", "ok", f"{have}: {use}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> Iterator[Finding]:
    yield Finding("system", "ok", platform.platform())
    cores = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores available"
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text(encoding="utf-8", errors="replace").split() if cpuinfo.is_file() else []
    bf16 = next((flag for flag in ("amx_bf16", "avx512_bf16", "bf16") if flag in flags), "emulated, slower")
    yield Finding("processor", "ok", f"{processor()}, {cores}; fp32, bf16 ({bf16})")
    page = os.sysconf("SC_PAGE_SIZE")
    whole, free = (size(page * os.sysconf(name)) for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
    yield Finding("memory", "ok", f"{whole}, {free} unused")
    try:
        import torch
    except Exception as fault:  # a library that does not load raises what it likes
        yield Finding("torch", "fault", f"cannot be used: {' '.join(str(fault).split())}")
        return
    yield Finding("threads", "ok", f"{torch.get_num_threads()} of torch")
    if not torch.cuda.is_available():
        yield Finding("gpu", "note", "none that CUDA can use; gpu=cpu and gpu=auto train on the processor")
        return
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        # From Ampere on, compute capability 8.0, there are tf32 and bf16.
        kinds = "fp32, fp16" + (", tf32, bf16" if properties.major >= 8 else "")
        has = f"{size(properties.total_memory)}, CUDA {torch.version.cuda}"
        yield Finding(f"gpu {index}", "ok", f"{properties.name}, {has}: {kinds}")


def _places(data_dir: str | None) -> Iterator[Finding]:
    from huggingface_hub import constants, get_session

    conf = presets.folder()
    there = (conf / "experiment" / "quickstart.yaml").is_file()
    yield Finding("presets", "ok" if there else "fault", f"{conf}" if there else f"no quickstart in {conf}")
    yield runs_folder(Path("outputs"))
    yield from _data(data_dir)
    models = len(list(Path(constants.HF_HUB_CACHE).glob("models--*")))
    yield Finding("models", "ok", f"{constants.HF_HUB_CACHE}, {models} models")
    if constants.HF_HUB_OFFLINE:
        yield Finding("hub", "note", "not asked: HF_HUB_OFFLINE is set, so that nothing is downloaded")
        return
    try:
        get_session().head(HUB, timeout=_PATIENCE)
    except Exception as fault:  # those of its client have no common class
        why = " ".join(str(fault).split())
        yield Finding("hub", "note", f"{HUB} cannot be reached ({why}); models and data must be here already")
    else:
        yield Finding("hub", "ok", f"{HUB} answers")


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
    from embedrun.store import Store, cache

    kept, store = cache.entries(), Store.find(data_dir)
    clean_up = "; embedrun data clean removes it" if kept else ""
    yield Finding("prepared data", "ok", f"{cache.folder()}, {cache.summary(kept)}{clean_up}")
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
