"""What a step of a BERT-base on 512 pairs as long as NLI's costs on the simulated device."""

import pytest
from bert_shaped import TINY, batch, stepper
from pretended_cuda import Device
from step import cost

pytestmark = pytest.mark.pretend


@pytest.mark.parametrize(
    ("options", "kernels", "waits"),
    [({}, 1_200, 1), ({"seeded_dropout": True}, 9_500, 3)],
    ids=["whole batch", "seeded dropout"],
)
def test_kernels_and_waits_of_a_step(device: Device, options: dict[str, bool], kernels: int, waits: int):
    spent = cost(512, "nli", **options)
    assert spent.waits.total() <= waits, spent.waits
    assert spent.kernels.total() <= kernels, spent.kernels


def test_a_batch_that_does_not_fit_goes_on_in_parts(device: Device):
    def taken(most: float | None) -> int | None:
        """Rows that are encoded at a time after a step with so many bytes on the device; None: all."""
        device.memory.limit = most
        try:
            trained = stepper("cuda", "bf16", shape=TINY)
            trained.take(1, 10, [batch(512)])
        finally:
            device.memory.limit = None
        return trained.parts.size

    with device.shapes_alone():
        assert taken(None) is None
        assert taken(0.6 * device.memory.peak) in (64, 128, 256)
