"""What two commits weigh, room by room: lines, files, tests, and how long and branched their functions are.

    python tests/trials/weight.py COMMIT COMMIT [--collect]

A room is a folder of `embedrun/` or `tests/`; the files beside the folders are one more. Tests are counted as
functions; `--collect` adds how many pytest collects by default in this checkout, parameters included.
"""

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median

ROOT = Path(__file__).resolve().parents[2]
BRANCHES = (
    ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension, ast.match_case, ast.Assert,
)  # fmt: skip
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def sources(commit: str) -> dict[str, str]:
    """The text of every Python file of both folders, by its path."""
    command = ["git", "-C", str(ROOT), "archive", commit, "embedrun", "tests"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = {
            member.name: archive.extractfile(member) for member in archive if member.name.endswith(".py")
        }
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def complexity(function: ast.AST) -> int:
    """One more than the branches inside (after McCabe 1976, A complexity measure)."""
    branches = 1
    for node in ast.walk(function):
        branches += isinstance(node, BRANCHES)
        branches += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
    return branches


def of_code(files: dict[str, str]) -> dict[str, float]:
    """Of the functions in `embedrun/`."""
    trees = [ast.parse(text) for path, text in files.items() if path.startswith("embedrun/")]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    branched = [complexity(node) for node in functions]
    return {
        "median function, lines": median((node.end_lineno or 0) - node.lineno + 1 for node in functions),
        "longest line": max(len(line) for text in files.values() for line in text.splitlines()),
        "mean complexity": round(mean(branched), 2),
        "worst complexity": max(branched),
    }


def weighed(commit: str) -> dict[str, tuple[float, ...]]:
    """Lines and files by room, both totals, and the other numbers, in the order of the table."""
    files = sources(commit)
    lines, count = Counter[str](), Counter[str]()
    for path, text in files.items():
        top, *rest = path.split("/")
        for name in (f"{top}/{rest[0] if len(rest) > 1 else '*.py'}", f"{top}/"):
            lines[name] += text.count("\n")
            count[name] += 1
    tests = sum(text.count("\ndef test_") for path, text in files.items() if path.startswith("tests/"))
    rooms: dict[str, tuple[float, ...]] = {name: (lines[name], count[name]) for name in sorted(lines)}
    return (
        rooms | {"tests (functions)": (tests,)} | {name: (value,) for name, value in of_code(files).items()}
    )


def rows(before: str, after: str) -> Iterator[str]:
    one, other = weighed(before), weighed(after)
    yield f"{'':26}{before[:10]:>10} files{after[:10]:>12} files"
    for name in dict.fromkeys([*one, *other]):
        sides = [(*map(str, side.get(name, ("-", "-"))), "")[:2] for side in (one, other)]
        yield f"{name:26}{sides[0][0]:>10}{sides[0][1]:>6}{sides[1][0]:>12}{sides[1][1]:>6}"


if __name__ == "__main__":
    print("\n".join(rows(sys.argv[1], sys.argv[2])))
    if "--collect" in sys.argv:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--co", "-n", "0", "-qq"], cwd=ROOT, check=False
        )
