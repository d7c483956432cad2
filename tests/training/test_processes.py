import json
import multiprocessing
from pathlib import Path

import pytest
import torch
from several_processes import join_and_talk
from whole_step import Trial, assert_equal_gradients, mixes_of

from embedrun.errors import ConfigError, RunFailed
from embedrun.training import processes as module
from embedrun.training.processes import LostContact, Processes


def alone(rank: int = 0, size: int = 1) -> Processes:
    one = Processes()
    one.rank, one.size = rank, size
    return one


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_several_processes_have_the_loss_and_the_gradient_of_one(size: int, tmp_path: Path):
    # Seven rows: shares of 4 and 3, and of 3, 2 and 2; each share in parts of two.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["several_processes"])  # imported once for all
    meeting = str(tmp_path / "meeting")
    started = [
        context.Process(target=join_and_talk, args=(rank, size, meeting, str(tmp_path)))
        for rank in range(size)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(timeout=120)
        assert process.exitcode == 0
    whole = {mix: Trial(mix).step() for mix in mixes_of(size)}
    for rank in range(size):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for mix in whole:
            assert_equal_gradients(found[mix], whole[mix], bar=1e-10)
            assert abs(found[mix]["loss"] / whole[mix]["loss"] - 1) <= 1e-12, mix
        said = json.loads((tmp_path / f"{rank}.json").read_text())
        assert said["any"] == [True, False, True]
        assert said["share"] == [[1.5, -0.1, float("inf")], []]
        assert said["differ"] == [False, True, True]
        if size == 2:  # three times the texts in all, shared out
            assert said["together"] == ([True, True, 303] if rank == 0 else [300])
        assert said["alone"] == [1, rank == 1, 1]
        if rank == 0:
            # The reason is the first that gloo sees: a closed connection, one that was reset, a broken pipe.
            assert said["lost"].startswith("another process of this run has ended or cannot be reached (")


def test_shares_are_neighbours_of_nearly_one_size():
    assert [alone(rank, 3).own(8) for rank in range(3)] == [slice(0, 3), slice(3, 6), slice(6, 8)]
    assert alone().own(5) == slice(0, 5)


def test_gradients_travel_with_neighbours_of_one_type_up_to_a_size(monkeypatch):
    monkeypatch.setattr(module, "_BUCKET", 40)
    tensors = [torch.zeros(4), torch.zeros(6), torch.zeros(1), torch.zeros(1).double(), torch.zeros(30)]
    assert [[len(one) for one in bucket] for bucket in module._buckets(tensors)] == [[4, 6], [1], [1], [30]]
    assert list(module._buckets([])) == []


def test_fewer_rows_than_processes_are_refused():
    with pytest.raises(
        ConfigError, match=r"training\.batch_size: 2 rows for 3 processes leave one without any"
    ):
        alone(0, 3).own(2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("NCCL error in: X, unhandled cuda error.\nCuda failure 2 'out of memory'", "NCCL error in: X, unha"),
        ("[enforce fail at alloc_cpu.cpp:1] . DefaultCPUAllocator: can't allocate memory: 9", "[enforce fai"),
    ],
)
def test_memory_that_runs_out_in_an_exchange_is_a_failure_of_ones_own(text: str, told: str):
    with pytest.raises(RunFailed, match=r"; lower training\.batch_size$") as caught, module._together():
        raise RuntimeError(text)
    assert not isinstance(caught.value, LostContact)
    assert caught.value.exit_code == 6
    assert str(caught.value).startswith(f"out of memory between the processes ({told}")
