"""The wheel in empty environments: several Pythons, the tested and the lowest versions; `make packages`.

    python scripts/packages.py [PYTHON ...] [--versions tested lowest]

PYTHON is an interpreter; without one, every python3.11 and newer that is found on the path. Each makes a
fresh environment in the temporary folder, installs the wheel with the extras of the default tests and the
versions of constraints.txt, asks `pip check`, and runs the default tests on what is installed. `lowest` does
the same on the first Python, with the lowest version that pyproject.toml allows of each package. Half an hour
and up to 7 GB of disk each on two cores; logs go to build/packages/. Exits with 1 if anything failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "packages"
SHOWN = ("torch", "transformers", "datasets", "peft", "hydra-core")  # versions in the table
LEFT_OUT = {"dev", "qlora"}  # linters; needs CUDA
_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?(?:>=|==)([\w.]+)")


def lowest(project: dict) -> list[str]:
    """`name==version` of every lower bound in the table `project` of pyproject.toml, each package once."""
    extras = project["optional-dependencies"]
    texts = project["dependencies"] + [
        text for extra in extras if extra not in LEFT_OUT for text in extras[extra]
    ]
    found = dict(_bound(text) for text in texts)
    return [f"{name}=={version}" for name, version in found.items()]


def _bound(text: str) -> tuple[str, str]:
    if (match := _REQUIREMENT.match(text)) is None:
        raise SystemExit(f"pyproject.toml: {text!r} has no lower bound")
    return match[1], match[2]


def pythons() -> list[str]:
    """Every python3.11 and newer on the path that runs."""
    found = [path for minor in range(11, 21) if (path := shutil.which(f"python3.{minor}"))]
    return [path for path in found if not subprocess.run([path, "-c", ""], capture_output=True).returncode]


def packed(folder: Path, python: str) -> tuple[Path, Path]:
    """The wheel and the unpacked sdist, built in `folder`; the sdist makes the same wheel, byte for byte."""
    builder = environment(folder / "builder", python)
    run([builder, "-m", "pip", "install", "-q", "build"])
    run([builder, "-m", "build", "-o", folder, ROOT, "--sdist", "--wheel"])
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    run([builder, "-m", "build", "-o", folder / "again", unpacked, "--wheel"])
    files, again = (
        {one.filename: one.CRC for one in zipfile.ZipFile(path).infolist()}
        for path in (wheel, folder / "again" / wheel.name)
    )
    if differing := sorted(name for name, _ in files.items() ^ again.items()):
        raise SystemExit(f"the wheels of the checkout and of the sdist differ: {', '.join(differing)}")
    return wheel, unpacked


def environment(folder: Path, python: str) -> Path:
    """The interpreter of a fresh environment."""
    run([python, "-m", "venv", folder])
    return folder / "bin" / "python"


def tried(python: str, versions: str, wheel: Path, sources: Path, folder: Path) -> list[str]:
    """A line of the table: what was installed, `pip check`, and how the default tests ended."""
    inside = environment(folder / "venv", python)
    release = said(inside, "-c", "import platform; print(platform.python_version())")
    log = LOGS / f"{release}-{versions}.log"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    constraints = ROOT / "constraints.txt"
    if versions == "lowest":
        constraints = folder / "lowest.txt"
        constraints.write_text("\n".join(lowest(project)) + "\n", encoding="utf-8")
    extras = ",".join(sorted(set(project["optional-dependencies"]) - LEFT_OUT))
    install = [inside, "-m", "pip", "install", "-c", constraints, f"{wheel}[{extras}]"]
    if run(install, log):
        return [release, versions, f"not installed, see {log.relative_to(ROOT)}"]
    have = [said(inside, "-c", _VERSION, name) for name in SHOWN]
    clean = not run([inside, "-m", "pip", "check"], log)
    tests = beside_installed(sources, folder / "tests", inside)
    code = run([inside, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"], log, cwd=tests)
    last = log.read_text(encoding="utf-8", errors="replace").strip().rsplit("\n", 1)[-1]
    ended = re.sub(r" in [\d.]+s.*", "", last).strip("= ")
    return [
        release,
        versions,
        *have,
        "clean" if clean else "not clean",
        ended if code < 2 else f"exit {code}",
    ]


def beside_installed(sources: Path, folder: Path, python: Path) -> Path:
    """The tests and what they read, with links to the installed package where the checkout has its own."""
    package = Path(said(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")) / "embedrun"
    shutil.copytree(sources, folder)
    for name, installed in (("embedrun", package), ("conf", package / "conf")):
        shutil.rmtree(folder / name)
        (folder / name).symlink_to(installed)
    return folder


def said(python: Path, *arguments: str) -> str:
    """What an interpreter prints."""
    return subprocess.run([python, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def run(command: Sequence[str | Path], log: Path | None = None, cwd: Path | None = None) -> int:
    """Run a command without this checkout on its path; with `log`, write there and return its code."""
    clear = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if log is None:
        return subprocess.run(command, env=clear, check=True).returncode
    with log.open("ab") as out:
        return subprocess.run(command, env=clear, cwd=cwd, stdout=out, stderr=subprocess.STDOUT).returncode


def main(argv: Sequence[str]) -> int:
    """Try what `argv` asks for and print the table; 1: something was not installed or did not pass."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    parser.add_argument("--versions", nargs="+", choices=("tested", "lowest"), default=["tested", "lowest"])
    arguments = parser.parse_args(argv)
    if not (chosen := arguments.pythons or pythons()):
        parser.error("no python3.11 or newer on the path; name one")
    arms = [(python, "tested") for python in chosen] + [(chosen[0], "lowest")]
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    rows = [["python", "versions", *SHOWN, "pip check", "default tests"]]
    with tempfile.TemporaryDirectory() as folder:
        wheel, sources = packed(Path(folder), chosen[0])
        for python, versions in arms:
            if versions in arguments.versions:
                with tempfile.TemporaryDirectory() as own:  # goes before the next is made: some gigabytes
                    rows.append(tried(python, versions, wheel, sources, Path(own)))
                    print("  ".join(rows[-1]), file=sys.stderr)
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return int(any("clean" not in row or "failed" in row[-1] or "passed" not in row[-1] for row in rows[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
