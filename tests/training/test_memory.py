"""Memory that runs out at any moment of a step changes how much is encoded at a time, and nothing else."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from whole_step import Trial, assert_equal_gradients

from embedrun.errors import RunFailed, is_out_of_memory
from embedrun.training.gradient import Parts

BAR = 1e-12
ON_A_CPU = (
    "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"
)


def failing(work: Callable[..., Any], at: set[int] | range) -> Callable[..., Any]:
    """The same work, that runs out of memory at these calls, from 1."""
    calls = 0

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        found = work(*arguments, **options)
        if calls in at:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return found

    return call


def fail_encoding(trial: Trial, *at: int) -> Trial:
    trial.encoder.forward = failing(trial.encoder.forward, set(at))  # type: ignore[method-assign]
    return trial


def fail_backward(trial: Trial, *at: int) -> Trial:
    """When the gradient reaches a layer in the middle: those above have their share by then."""
    layer = trial.encoder.backbone.model.encoder.layer[1]
    layer.register_full_backward_hook(failing(lambda *_: None, set(at)))
    return trial


@pytest.fixture(scope="module")
def whole() -> dict[str, torch.Tensor]:
    return Trial("raoe").step()


# Seven rows in parts of three: calls 1 to 3 encode, 4 to 6 again with a graph.
@pytest.mark.parametrize("call", range(1, 7))
def test_parts_that_do_not_fit_are_halved_and_the_gradient_stays(call: int, whole):
    trial = fail_encoding(Trial("raoe", 3), call)
    assert_equal_gradients(trial.step(), whole, BAR)
    assert trial.stepper.parts.size == 1


def test_losses_that_do_not_fit_by_themselves_end_the_run():
    trial = Trial("raoe", 3)
    trial.mix.forward = failing(trial.mix.forward, range(1, 99))  # type: ignore[method-assign]
    with pytest.raises(RunFailed, match=r"lower training\.batch_size where they need the room") as failure:
        trial.step()
    assert failure.value.exit_code == 6


def test_with_one_row_at_a_time_the_run_ends_and_says_what_helps():
    trial = fail_encoding(Trial("raoe", 2), *range(1, 99))
    with pytest.raises(
        RunFailed, match=r"^out of memory with one row encoded at a time\. Set training"
    ) as failure:
        trial.step()
    assert failure.value.exit_code == 6


@pytest.mark.parametrize("fail", [fail_encoding, fail_backward])
def test_dropout_that_cannot_be_repeated_follows_seeds_from_then_on(fail, whole, caplog, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("embedrun"), "propagate", True)  # an earlier run may have ended it
    trial = fail(Trial("raoe", None), 1)
    assert_equal_gradients(trial.step(), whole, BAR)  # which has seeds from the start
    assert trial.stepper.state()["seeded_dropout"] is True
    (warning,) = caplog.messages
    assert warning.startswith("out of memory: from here on 3 rows are encoded at a time")
    assert warning.endswith("from here on (training.seeded_dropout)")
    assert capsys.readouterr().err == f"warning: {warning}\n"


def test_sam_begins_again_at_the_weights():
    def sam(trial: Trial) -> Trial:
        trial.stepper._config.optimizer, trial.stepper._config.sam_rho = "sam", 0.3
        return trial

    expected = sam(Trial("raoe")).step()
    for call in (1, 2):  # at the weights, and nearby
        assert_equal_gradients(sam(fail_encoding(Trial("raoe", None), call)).step(), expected, BAR)
        assert_equal_gradients(sam(fail_backward(Trial("raoe"), call)).step(), expected, BAR)


def test_one_of_several_processes_ends_for_others_wait_for_it():
    with pytest.raises(RunFailed, match=r"set training\.micro_batch_size=4 in a new run") as failure:
        Parts(None, seeded=True).halve(8, processes=2)
    assert failure.value.exit_code == 6


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError(ON_A_CPU), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("NCCL error: unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_what_counts_as_out_of_memory(fault: Exception, expected: bool):
    assert is_out_of_memory(fault) is expected
