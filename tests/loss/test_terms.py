from torch import Tensor, nn

from embedrun.loss.angle import Angle
from embedrun.loss.in_batch_negatives import InBatchNegatives
from embedrun.loss.terms import needs


class Outside(nn.Module):
    def forward(self, text: Tensor, negative: Tensor, teacher: Tensor, label: Tensor | None = None) -> Tensor:
        raise AssertionError("only its signature is read")


def test_needs_are_read_from_the_signature_of_forward():
    assert needs(Angle) == (["left", "right"], ["score"], [])
    assert needs(InBatchNegatives) == (["left", "right"], ["score"], ["left_identity", "right_identity"])
    assert needs(Outside) == (["text", "negative"], ["teacher"], ["label"])
