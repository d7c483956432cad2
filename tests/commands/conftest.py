import pytest


@pytest.fixture(autouse=True)
def _as_a_command(_alone: None, _quick_plots: None) -> None:
    """Every test of a command has an empty folder to run in, and its figures are not drawn."""
