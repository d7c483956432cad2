"""The modules of scripts/, which no package holds."""

import importlib.util
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).parents[2] / "scripts"


def script(name: str) -> ModuleType:
    """The module of `scripts/NAME.py`."""
    spec = importlib.util.spec_from_file_location(name, _FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
