"""A pytest plugin: every test of the process has the simulated CUDA device, as `make test-pretend` starts it.

PYTHONPATH=tests/pretend python -m pytest -n 0 -p pretended_plugin -m pretend tests/pretend
"""

import pretended_guard

pretended_guard.load()  # before torch is imported, and so before any conftest.py

import pretended_cuda  # noqa: E402

pretended_cuda.install()
