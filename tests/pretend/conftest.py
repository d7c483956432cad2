"""These tests need the simulated device, which is there before anything imports torch or not at all."""

import pytest
from pretended_cuda import DEVICE, Device


@pytest.fixture
def device() -> Device:
    """The simulated device, with new accounts."""
    assert DEVICE.installed, "run these tests with make test-pretend"
    DEVICE.reset()
    return DEVICE
