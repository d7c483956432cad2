"""Imports go down and never round; conf/ has the shape of the package; --help needs nothing heavy."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import embedrun
from embedrun.config import presets

ROOT = Path(embedrun.__file__).parent
# Highest first. A file imports files of lower floors or of its own room, never of another room of its floor.
FLOORS = (
    ("__main__",),
    ("cli",),
    ("commands",),
    ("study",),
    ("launch", "estimate"),
    ("curation",),
    ("experiment",),
    ("training", "report", "serving", "devices"),
    ("table", "encoder", "card", "reference"),
    ("backbone", "dataset", "loss", "export"),
    ("evaluation", "pooling", "gpu", "runs", "store", "tracking", "prompts", "family"),
    ("config", "blocks", "plot", "quantized"),
    ("files", "signals", "child", "cycles"),
    ("console", "errors", "rows", "batch"),
    ("__init__",),  # the version
)  # fmt: skip
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}
# The package offers its one class, which is imported when it is asked for.
KNOWN = {("__init__", "encoder")}
HEAVY = {
    "torch", "transformers", "rich", "scipy", "matplotlib", "datasets", "sklearn", "numba", "mteb", "openai",
    "github",
}  # fmt: skip
LIGHT = (
    "cli", "console", "errors", "files", "blocks", "signals", "child", "cycles", "rows", "config",
    "config.compose", "config.safety", "config.presets", "store", "family", "prompts", "runs.directory",
    "runs.reading",
    "runs.listing", "table", "table.sheet", "table.formats", "table.cells", "report", "launch.job",
    "reference",
    *(f"commands.{file.stem}" for file in (ROOT / "commands").glob("[a-z]*.py")),
)  # fmt: skip
# Imports of ours inside functions, where a heavy library would come along or one of LIGHT would cease to be.
# This number may only become smaller.
MOST_INSIDE_FUNCTIONS = 114
_DOTTED = re.compile(r"embedrun(?:\.[a-z_][a-z0-9_]*)+(?::[A-Za-z_]\w*)?")


def module_name(file: Path) -> str:
    """`commands.start`, `config` for its `__init__.py`, `__init__` for that of embedrun."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_name(file): file for file in sorted(ROOT.rglob("*.py"))}


def named_in(node: ast.AST) -> Iterator[str]:
    """The dotted names of what one statement or one text names; of `from a import b`, `a.b`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
        yield node.value.replace(":", ".")


def imported(tree: ast.AST) -> Iterator[str]:
    """Everything that a tree imports, wherever it stands, and every text that is the name of a module."""
    for node in ast.walk(tree):
        yield from named_in(node)


def own(name: str) -> str | None:
    """The module of ours behind a dotted name; None for what is not ours."""
    if name.partition(".")[0] != "embedrun":
        return None
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in MODULES:
        parts.pop()  # the name of something inside the module
    return ".".join(parts) or "__init__"


@cache
def parse(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def is_for_types_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def targets(module: str) -> frozenset[str]:
    """The modules of ours that a module imports or names, in functions too."""
    # The package offers its one class to Python users; type checkers alone read that import.
    nodes = [node for node in parse(module).body if module != "__init__" or not is_for_types_only(node)]
    found = {own(name) for node in nodes for name in imported(node)}
    return frozenset(target for target in found if target is not None and target != module)


def at_module_level(tree: ast.Module) -> Iterator[str]:
    """What is imported when the module is: not what stands in functions or for type checkers alone."""
    pending: list[ast.AST] = [node for node in tree.body if not is_for_types_only(node)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from named_in(node)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def broken(module: str, target: str) -> bool:
    """Whether `module` may not import `target`."""
    room, other = module.partition(".")[0], target.partition(".")[0]
    return room != other and LEVEL[other] <= LEVEL[room]


def circles(arrows: dict[str, frozenset[str]]) -> list[list[str]]:
    """Groups of files that reach each other (Tarjan 1972, Depth-first search and linear graph algorithms)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(arrows.get(name, ())):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in arrows:
        if name not in index:
            visit(name)
    return sorted(found)


@pytest.fixture(scope="module", autouse=True)
def _files_are_read():
    for module in MODULES:
        targets(module)


def test_every_room_has_its_floor():
    assert {module.partition(".")[0] for module in MODULES} == set(LEVEL)


def test_imports_point_down():
    found = {(module, target) for module in MODULES for target in targets(module) if broken(module, target)}
    assert found == KNOWN


def test_no_files_import_each_other_in_a_circle():
    # Every file reaches the package's own __init__, which holds the version.
    arrows = {module: targets(module) - {"__init__"} for module in MODULES}
    assert circles(arrows) == []


def test_a_circle_through_a_third_file_is_found():
    arrows = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a")}
    assert circles(arrows) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("module", "name", "is_broken"),
    [
        ("training.loop", "embedrun.gpu.Compute", False),
        ("gpu", "embedrun.training.loop", True),
        ("loss.mix", "embedrun.backbone.files", True),  # of the same floor
        ("loss.mix", "embedrun.loss.terms", False),
        ("rows", "embedrun.batch", True),
        ("errors", "embedrun.config", True),
        ("cli", "embedrun.__version__", False),
    ],
)
def test_the_rule_by_example(module: str, name: str, is_broken: bool):
    target = own(name)
    assert target is not None
    assert broken(module, target) is is_broken


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    from embedrun.training import loop",
        'START = "embedrun.training.loop"',
        'START = "embedrun.training.loop:fit"',
    ],
)
def test_imports_in_functions_and_names_in_texts_count(code: str):
    assert [own(name) for name in imported(ast.parse(code))] == ["training.loop"]
    assert list(at_module_level(ast.parse(code))) == []


def test_fewer_and_fewer_imports_of_ours_stand_in_functions():
    inside = sum(
        1
        for module in MODULES
        for function in ast.walk(parse(module))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom) and any(own(name) for name in named_in(node))
    )
    assert inside <= MOST_INSIDE_FUNCTIONS


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
    assert "torch" in loaded("batch")


@pytest.mark.parametrize(
    "module", ["encoder", "commands.encode", "experiment.evaluation", "experiment.training"]
)
def test_encoding_evaluating_and_training_begin_without_what_they_may_not_need(module: str):
    assert loaded(module) & (HEAVY - {"torch"}) == set()


def test_every_config_group_has_its_module():
    groups = {path.name for path in presets.folder().iterdir() if path.is_dir()}
    assert groups - {"scale"} <= {module.partition(".")[0] for module in MODULES}
    assert {"loss", "training", "gpu"} <= groups
