"""Imports point one way, the tree of conf/ is the tree of the package, and --help needs nothing heavy."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import embedrun
from embedrun import presets

ROOT = Path(embedrun.__file__).parent
# Highest first. A module imports strictly lower layers or its own package, never a sibling.
LAYERS = (
    ("__main__",),
    ("cli",),
    ("commands",),
    ("training", "table", "report"),
    ("encoder", "card"),
    ("backbone", "pooling", "head", "loss", "dataset", "evaluation", "gpu", "run", "environment", "tracking",
     "export", "plot"),
    ("batch", "rows", "store", "family", "prompt", "tokenizer"),
    ("config", "presets"),
    ("files",),
    ("child", "console", "errors"),
    ("__init__",),  # the version
)  # fmt: skip
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
HEAVY = {"torch", "transformers", "rich", "scipy", "matplotlib", "datasets", "sklearn", "numba", "mteb"}
LIGHT = (
    "cli", "config", "presets", "errors", "console", "files", "run", "rows", "store", "family",
    "prompt", "tokenizer", "commands.encode", "commands.export", "commands.arguments", "commands.compose",
    "commands.safety", "commands.start",
    "table", "table.build", "table.render", "report", "commands.table", "commands.table_cells",
    "commands.report",
    "commands.tune", "commands.completion",
)  # fmt: skip


def module_name(file: Path) -> str:
    """`commands.start`, `config` for its `__init__.py`, `__init__` for that of embedrun."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_name(file): file for file in sorted(ROOT.rglob("*.py"))}


def imported(tree: ast.AST) -> Iterator[str]:
    """The dotted names of what a tree imports; of `from a import b`, `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own(name: str) -> str | None:
    """The module of ours behind a dotted name; None for what is not ours."""
    if name.partition(".")[0] != "embedrun":
        return None
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in MODULES:
        parts.pop()  # the name of something inside the module
    return ".".join(parts) or "__init__"


def parse(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def is_for_types_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def at_module_level(tree: ast.Module) -> Iterator[str]:
    """What is imported when the module is: not what stands in functions or for type checkers alone."""
    pending: list[ast.AST] = [node for node in tree.body if not is_for_types_only(node)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imported(node)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def broken(module: str, target: str) -> bool:
    """Whether `module` may not import `target`."""
    package, other = module.partition(".")[0], target.partition(".")[0]
    return package != other and LEVEL[other] <= LEVEL[package]


def test_every_module_has_its_layer():
    assert {module.partition(".")[0] for module in MODULES} <= set(LEVEL)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str):
    # The package offers its one class to Python users; type checkers alone read that import.
    nodes = [node for node in parse(module).body if module != "__init__" or not is_for_types_only(node)]
    targets = {own(name) for node in nodes for name in imported(node)} - {None}
    assert sorted(target for target in targets if broken(module, target)) == []


@pytest.mark.parametrize(
    ("module", "name", "is_broken"),
    [
        ("training.loop", "embedrun.gpu.Compute", False),
        ("gpu", "embedrun.training.loop", True),
        ("loss.mix", "embedrun.evaluation.sts", True),  # a sibling
        ("loss.mix", "embedrun.loss.terms", False),
        ("rows", "embedrun.batch", True),
        ("config.check", "embedrun.presets", True),
        ("errors", "embedrun.config", True),
        ("cli", "embedrun.__version__", False),
    ],
)
def test_the_rule_by_example(module: str, name: str, is_broken: bool):
    target = own(name)
    assert target is not None
    assert broken(module, target) is is_broken


def test_imports_inside_functions_count():
    tree = ast.parse("def f():\n    from embedrun.training import loop")
    assert [own(name) for name in imported(tree)] == ["training.loop"]
    assert list(at_module_level(tree)) == []


def loaded(module: str, seen: set[str] | None = None) -> set[str]:
    """The names outside of ours that importing a module imports, through our own modules too."""
    seen = set() if seen is None else seen
    if module in seen:
        return set()
    seen.add(module)
    parts = module.split(".")
    packages = {"__init__"} | {".".join(parts[:count]) for count in range(1, len(parts))}
    names = set(at_module_level(parse(module)))
    ours = {target for name in names if (target := own(name)) is not None} | packages
    outside = {name.partition(".")[0] for name in names if own(name) is None}
    return outside.union(*(loaded(target, seen) for target in ours))


@pytest.mark.parametrize("module", LIGHT)
def test_help_and_completion_import_nothing_heavy(module: str):
    assert loaded(module) & HEAVY == set()


def test_a_heavy_import_would_be_seen_through_our_own_modules():
    assert "torch" in loaded("training.loop")
    assert "torch" in loaded("training.selection") | loaded("batch")


def test_every_config_group_has_its_module():
    groups = {path.name for path in presets.folder().iterdir() if path.is_dir()}
    assert groups - {"experiment", "scale"} <= {module.partition(".")[0] for module in MODULES}
    assert {"loss", "training", "gpu"} <= groups
