"""What several gloo processes tell each other, one file a process."""

import json
from pathlib import Path

import torch
from whole_step import join

from embedrun.training.processes import LostContact, Processes


def join_and_talk(rank: int, size: int, meeting: str, folder: str) -> None:
    """The gradient of every mix, as `join`; then what the processes answer each other; then one leaves."""
    join(rank, size, meeting, folder)
    _meet(rank, size, f"{meeting}-2")
    one = Processes()
    said = {
        "any": [one.any(rank == 1), one.any(False), one.any(True)],
        "share": [one.share([1.5, -0.1, float("inf")] if rank == 0 else [0.0, 1.0, 2.0]), one.share([])],
        "differ": [one.differ("same"), one.differ(f"rank {rank}"), one.differ(str(rank == 0))],
    }
    one.part()
    said["alone"] = [one.size, one.any(rank == 1), Processes().size]
    _meet(rank, size, f"{meeting}-3")
    if rank == 0:
        said["lost"] = _left_alone()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(said))


def _meet(rank: int, size: int, meeting: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)


def _left_alone() -> str:
    try:
        Processes().any(False)
    except LostContact as fault:
        return str(fault)
    return ""
