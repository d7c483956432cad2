import re
from pathlib import Path

from embedrun.config import presets

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
LOSSES = re.search(r"## Losses\n\n(.*?)\n## ", README, re.DOTALL)
TREE = re.search(r"## The tree\n\n```\n(.*?)```", README, re.DOTALL)


def listed() -> set[str]:
    """Paths of the files that the tree names, from its indentation."""
    assert TREE
    folders: list[str] = []
    files = set()
    for line in TREE[1].splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        folders = [*folders[:depth], name.rstrip("/")]
        if name.endswith((".py", ".yaml")):
            files.add("/".join(folders))
    return files


def test_the_tree_names_every_module_and_nothing_else():
    modules = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "embedrun").rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    assert {file for file in listed() if file.endswith(".py")} == modules


def test_the_tree_names_every_choice_of_every_group():
    assert TREE
    assert LOSSES
    for group, choices in presets.groups().items():
        line = next(line for line in TREE[1].splitlines() if line.strip().startswith(f"{group}/  "))
        # There are too many losses for a line: they have a table.
        text = LOSSES[1] if group == "loss" else line.replace(":", " ")
        assert set(choices) <= set(re.findall(r"\w+", text)), group


def test_no_loss_is_in_the_table_that_is_not_there():
    assert LOSSES
    rows = [line.split("|")[1] for line in LOSSES[1].splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(presets.groups()["loss"])


def test_every_preset_in_a_command_is_there():
    experiments = set(presets.groups()["experiment"])
    assert set(re.findall(r"\+experiment=(\w+)", README)) <= experiments
