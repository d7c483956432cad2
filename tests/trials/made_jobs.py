"""Jobs that only leave the run directories which training would, with made-up scores."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedrun.launch.job import Job
from embedrun.runs.directory import Outcome, Run

KILLED = "the job's process ended without a result (killed by signal 9)"


@dataclass
class MadeJobs:
    """Stands in for `run_in_child`.

    Args:
        scores: of a configuration.
        killed: whether the process of a configuration is killed.
        data: fingerprints that each run writes down.
        started: the jobs, in order.
    """

    scores: Callable[[dict[str, Any]], dict[str, float]]
    killed: Callable[[dict[str, Any]], bool] = lambda _: False
    data: dict[str, str] = field(default_factory=dict)
    started: list[Job] = field(default_factory=list)

    def __call__(self, job: Job, *_: object) -> Outcome:
        self.started.append(job)
        if job.resumed is None:
            run = Run.create(job.config["name"], job.config, directory=job.directory)
            run.start(job.config, job.overrides, {"data": self.data})
        else:
            run = Run.claim(Path(job.resumed))
            run.go_on()
        if self.killed(job.config):
            run.release()
            return Outcome(error=KILLED, code=-9)
        scores = self.scores(job.config)
        main = next(key for key in scores if "_dev/" not in key)
        run.results({"main": {"name": main, "value": scores[main]}, "scores": scores})
        (run.path / "model").mkdir(exist_ok=True)
        run.end("finished")
        return Outcome(str(run.path), {"name": main, "value": scores[main]})

    @property
    def seeds(self) -> list[int]:
        """Of the jobs that were started."""
        return [job.config["seed"] for job in self.started]


def record(folder: Path) -> dict[str, Any]:
    """What a `sweep.json` says."""
    return json.loads((folder / "sweep.json").read_text(encoding="utf-8"))


def in_this_process(job: Job, *_: object) -> Outcome:
    """Stands in for `run_in_child`: train for real, without the start of a process."""
    from embedrun.experiment.training import run

    return run(dict(job.config), list(job.overrides), job.directory, choices=job.choices)
