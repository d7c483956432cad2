"""The notebook runs from its first cell to its last."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs/notebooks/first_run.ipynb"


@pytest.mark.slow
def test_every_cell_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    names = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        lines = "".join(cell["source"]).splitlines()
        exec("\n".join(line for line in lines if not line.startswith("!")), names)
        for line in lines:
            if line.startswith("!"):
                subprocess.run(line[1:], shell=True, check=True)
    assert names["vectors"].shape == (3, 128)
