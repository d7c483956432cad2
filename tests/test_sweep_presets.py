"""The presets of the papers' grids: all jobs differ, and the first, middle and last of each compose."""

import pytest

from embedrun.config import presets
from embedrun.config.compose import Compositions, composed, sweep
from embedrun.config.request import Request
from embedrun.experiment.plan import plan_train
from embedrun.runs.directory import config_hash
from embedrun.table import load
from embedrun.table.cells import identity

# Jobs of each, and what the first and the last vary.
GRIDS = {
    "sweep_angle_batch_size": (4, "training.batch_size", 8, 50),
    "sweep_angle_large_batches": (4, "training.batch_size", 50, 512),
    "sweep_angle_temperature": (7, "loss.terms.angle.temperature", 0.05, 5),
    "sweep_angle_weights": (27, "loss.terms.in_batch_negatives.weight", 0.5, 35),
    "sweep_arccse_batch_size": (6, "training.accumulate", 64, 2),
    "sweep_arccse_coefficient": (13, "loss.terms.masked_triplet.weight", 0.0, 1.2),
    "sweep_arccse_margin": (11, "loss.terms.arccon.margin", 0, 20),
    "sweep_arccse_masking": (24, "dataset.masking.second", 0.2, 0.6),
    "sweep_arccse_temperature": (10, "loss.terms.arccon.temperature", 0.01, 0.1),
    "sweep_raoe_margin": (7, "loss.terms.rank_margin.interval", 0, 32),
    "sweep_raoe_margin_qwen": (7, "loss.terms.rank_margin.interval", 0, 32),
    "sweep_raoe_teachers": (3, "dataset.column", "score", "score_2"),
    "sweep_raoe_weights": (9, "loss.terms.gated_angular.weight", 0.5, 2),
}


def test_every_sweep_is_held_here():
    assert {name for name in presets.groups()["experiment"] if name.startswith("sweep_")} == set(GRIDS)


@pytest.mark.parametrize("name", GRIDS)
def test_the_jobs_of_a_sweep_are_valid_and_all_different(name):
    request = Request(command="train", overrides=(f"+experiment={name}",))
    count, key, first, last = GRIDS[name]
    jobs = sweep(request)
    found = [composed(request, jobs[place], job=place) for place in (0, len(jobs) // 2, len(jobs) - 1)]
    assert len(jobs) == len({tuple(job) for job in jobs}) == count
    assert [_option(job.config, key) for job in (found[0], found[-1])] == [first, last]
    for what in (lambda job: job.config["name"], lambda job: config_hash(job.config)):
        assert len({what(job) for job in found}) == 3
    for job in found:
        plan_train(job.config)


def test_the_jobs_of_a_grid_are_the_runs_of_their_rows():
    request = Request(command="train", overrides=("+experiment=sweep_angle_batch_size",))
    jobs = {identity(composed(request, job, job=0).config, _no_run) for job in sweep(request)}
    rows = [row for row in load("angle/table2").rows if row.group == "Batch size"]
    made = Compositions()
    cells = {identity(made.config("train", row.cells[0].overrides), _no_run) for row in rows}
    assert jobs == cells


def _no_run(name: str) -> None:
    """What a model counts as that is no run."""


def _option(config: dict, key: str):
    for part in key.split("."):
        config = config[part]
    return config
