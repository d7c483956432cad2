"""No private name of another package is used: an update of it may change them without a word."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "embedrun").rglob("*.py"), *(ROOT / "scripts").glob("*.py")])
# Operators of torch that gain what no public way does (docs/performance.md); each behind a probe, with the
# public way beside it. And the class that torch's documentation names for counting operations.
ALLOWED = {
    ("embedrun/backbone/unpadded.py", "torch.ops.aten._flash_attention_forward"),
    ("embedrun/devices.py", "torch.utils._python_dispatch.TorchDispatchMode"),
    ("embedrun/backbone/packed.py", "torch.ops.mkldnn._linear_pointwise"),
    ("embedrun/backbone/packed.py", "torch.ops.mkldnn._reorder_linear_weight"),
}
PACKAGES = {
    "torch",
    "transformers",
    "datasets",
    "huggingface_hub",
    "peft",
    "hydra",
    "omegaconf",
    "yaml",
    "numpy",
}
_OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}  # public, whatever they look like


def is_private(name: str) -> bool:
    return name.startswith("_") and name != "_" and not name.endswith("__") and name not in _OF_NAMED_TUPLES


def dotted(node: ast.expr) -> str:
    """`a.b` of a name or an attribute of one; other expressions are a `?`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def private_names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Private names that a file defines, and those that it imports or reads, as dotted names."""
    ours, used, imported = set(), set(), {}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                ours.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                ours.add(name)
            case ast.Attribute(attr=name) if is_private(name):
                used.add(dotted(node))
            case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(value=str(name)), *_]):
                used.add(f"{dotted(of)}.{name}")
            case ast.Import(names=names):
                imported |= {alias.asname: alias.name for alias in names if alias.asname}
                used |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                imported |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
                used |= {f"{module}.{alias.name}" for alias in names}
    roots = (name.partition(".") for name in used)
    return ours, {imported.get(root, root) + dot + rest for root, dot, rest in roots}


def of_others(names: set[str], ours: set[str]) -> set[str]:
    """Of dotted names those with a private part that is not of this package's making."""
    foreign = set()
    for name in names:
        root, *parts = name.split(".")
        is_module = root in PACKAGES
        if root not in ("self", "cls", "embedrun") and any(
            is_private(part) and (is_module or part not in ours) for part in parts
        ):
            foreign.add(name)
    return foreign


@pytest.fixture(scope="module")
def used() -> set[tuple[str, str]]:
    """File and name, of all that is used."""
    found = {path: private_names(ast.parse(path.read_text(encoding="utf-8"))) for path in FILES}
    ours = set().union(*(defined for defined, _ in found.values()))
    uses = {path: of_others(names, ours) for path, (_, names) in found.items()}
    return {(str(path.relative_to(ROOT)), name) for path, names in uses.items() for name in names}


def test_no_private_name_of_another_package_is_used_but_those_listed(used):
    assert used - ALLOWED == set()


def test_what_is_listed_is_used(used):
    assert ALLOWED - used == set()


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from hydra._internal import callbacks", {"hydra._internal.callbacks"}),
        ("from yaml import _yaml", {"yaml._yaml"}),
        ("import torch._C", {"torch._C"}),
        ("import torch\ntorch._C.x()", {"torch._C"}),
        ("import numpy as np\nnp._core", {"numpy._core"}),
        ("def f(run):\n    return run._settings", {"run._settings"}),
        ("def f(run):\n    return run.config[0]._settings", {"?._settings"}),
        ("def f(run):\n    return getattr(run, '_settings', None)", {"run._settings"}),
        ("def f(run):\n    run._settings = 1", {"run._settings"}),
        ("class A:\n    def f(self, other):\n        self._x = 1\n        return other._x + self._y", set()),
        ("from embedrun.loss import _mix\n_mix.a", set()),
        ("def f(pair):\n    return pair._replace(a=1), pair.__dict__", set()),
    ],
)
def test_the_rule_by_example(code: str, names: set[str]):
    ours, used = private_names(ast.parse(code))
    assert of_others(used, ours) == names
