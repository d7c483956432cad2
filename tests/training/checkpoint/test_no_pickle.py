"""Nothing in the package reads pickle or runs code that came with a model."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import embedrun


def calls_and_imports(source: Path) -> Iterator[str]:
    """Every import, and every call with its keywords, as `module.name(keyword=value)` pieces."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            yield f"{ast.unparse(node.func)}("
            yield from (f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in node.keywords)


@pytest.mark.parametrize(
    "example", ["import pickle", "torch.load(x)", "import joblib", "np.load(x, allow_pickle=True)",
                "AutoModel.from_pretrained(x, trust_remote_code=True)", "from torch import load"],
)  # fmt: skip
def test_the_search_for_pickle_finds_it(tmp_path: Path, example: str):
    (tmp_path / "x.py").write_text(example)
    assert any(unsafe(piece) for piece in calls_and_imports(tmp_path / "x.py"))


def unsafe(piece: str) -> bool:
    modules = ("pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal")
    keywords = ("allow_pickle=True", "weights_only=False", "trust_remote_code=True")
    head = piece.rstrip("(").split(".")[0]
    return head in modules or piece in ("torch.load(", "torch.load", *keywords)


def test_nothing_in_the_package_reads_pickle_or_runs_remote_code():
    root = Path(embedrun.__file__).parent
    found: dict[str, list[Any]] = {}
    for source in root.rglob("*.py"):
        if pieces := [piece for piece in calls_and_imports(source) if unsafe(piece)]:
            found[str(source.relative_to(root))] = pieces
    assert found == {}
