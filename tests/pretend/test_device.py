"""What the accounts of the pretended device are worth: a few calls whose costs are known."""

import pytest
import torch
from pretended_cuda import Device, Pretended

pytestmark = pytest.mark.pretend


def test_a_product_is_one_kernel_with_the_values_of_the_processor(device: Device):
    left, right = torch.rand(3, 5), torch.rand(5, 2)
    product = left.to("cuda", non_blocking=True) @ right.to("cuda", non_blocking=True)
    assert isinstance(product, Pretended)
    assert product.is_cuda
    assert device.kernels == {"mm": 1}
    assert not device.waits
    assert torch.equal(product.cpu(), left @ right)
    assert device.waits.total() == 1  # the copy back


def test_each_question_of_the_host_is_a_wait_with_its_line(device: Device):
    values = torch.arange(4, device="cuda")
    assert values.sum().item() == 6
    assert values[values > 1].tolist() == [2, 3]
    causes = [line.partition(" @ ")[0] for line in device.waits]
    assert causes == ["_local_scalar_dense", "index by a mask", "copy to the processor, 16 bytes"]
    assert all("tests/pretend/test_device.py" in line for line in device.waits)


def test_peak_memory_is_what_lives_at_once_in_blocks_of_512_bytes(device: Device):
    with device.shapes_alone():
        before = device.memory.live
        first = torch.zeros(1000, 256, device="cuda")  # 1,024,000 bytes, 2,000 blocks
        second = first + 1
        del first
        third = second[:10].clone()  # 10,240 bytes
        small = torch.zeros(1, device="cuda")  # one block
        assert device.memory.peak - before == 2 * 1_024_000
        assert device.memory.live - before == 1_024_000 + 10_240 + 512
        del second, third, small
        assert device.memory.live == before
