"""Whether a step may be taken: its loss and its gradient must be finite."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from embedrun.batch import Batch
from embedrun.errors import NON_FINITE, RunFailed

# Of the values of a step, what must be finite; in the order in which a fault comes about.
_CHECKED = ("loss", "gradient_norm", "sam/loss_nearby", "sam/gradient_norm_nearby")
_SHOWN = 8  # rows in the message

Values = dict[str, Tensor | float]  # by name; tensors are scalars on the device


class NonFinite(RunFailed):
    """The run ends before the step is taken: the weights are those of the step before (exit 4).

    Args:
        what: is not finite, in words.
        step: that was not taken.
        batches: of the step.
        values: of the step, by name.

    Attributes:
        step: that was not taken.
        rows: positions in the training split of the rows of each batch of the step.
        values: of the step, by name; some are infinite or NaN, which JSON has no word for.
    """

    def __init__(
        self, what: str, *, step: int, batches: Sequence[Batch], values: Mapping[str, Tensor | float]
    ) -> None:
        self.step = step
        self.rows: list[list[int]] = [batch.rows.tolist() for batch in batches]
        self.values = {name: float(value) for name, value in values.items()}
        each = ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        rows = [str(row) for batch in self.rows for row in batch]
        more = ", ..." if len(rows) > _SHOWN else ""
        super().__init__(
            f"{what} at step {step}; no step was taken with it ({each}; training rows "
            f"{', '.join(rows[:_SHOWN])}{more}). Lower training.lr, or choose gpu.precision=fp32, in a new "
            "run (training.resume=never)",
            exit_code=NON_FINITE,
        )


class Check:
    """Looks at each step before it is taken.

    Args:
        most_skipped: steps in a row that may be left out because a gradient overflowed, as is expected now
            and then of a gradient that is scaled up for float16; None: none may.

    Attributes:
        skipped: steps that were left out.
        in_a_row: those since the last one that was taken.
    """

    def __init__(self, most_skipped: int | None) -> None:
        self._most = most_skipped
        self.skipped = self.in_a_row = 0

    def usable(self, step: int, batches: Sequence[Batch], values: Values) -> bool:
        """Whether the step may be taken; the one place of a step that waits for the device.

        A loss that is not finite nearly always makes a gradient that is not. But a loss may be infinite with
        a slope that is not, and NaN in a term that reaches no weight. So both are looked at, in one go. On
        several processes all see the same, the gradient of all and the loss of all rows.

        Args:
            step: the first is 1.
            batches: of the step.
            values: of the step, by name.

        Raises:
            NonFinite: if it may not, and may not be left out either.
        """
        names = [name for name in _CHECKED if name in values]
        flags = torch.stack([torch.isfinite(torch.as_tensor(values[name])) for name in names])  # (names,)
        wrong = [name for name, finite in zip(names, flags.tolist(), strict=True) if not finite]
        if not wrong:
            self.in_a_row = 0
            return True
        # A scale has no part in the loss, so a lower one, which comes of leaving out, would not mend it.
        if self._most is None or "loss" in wrong:
            what = f"{wrong[0].replace('_', ' ')} is {float(values[wrong[0]])}"
            raise NonFinite(what, step=step, batches=batches, values=values)
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row > self._most:
            what = f"the gradient overflowed {self.in_a_row} times in a row (gpu.most_skipped), the last time"
            raise NonFinite(what, step=step, batches=batches, values=values)
        return False
