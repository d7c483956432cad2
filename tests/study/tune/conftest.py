"""Without optuna there is no search to test."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("optuna") else ["test_*.py"]
