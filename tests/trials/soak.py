"""What grows over a long run and over a long sweep, measured from outside; run by `make soak`.

A run of a tiny model with dev scores, checkpoints, W&B's files and TensorBoard's trains `--steps` optimizer
steps, is killed with SIGKILL and resumed for the last steps. A sweep of `--jobs` tiny runs has one job killed
after a quarter, and is killed itself after half; the same command then ends it. Memory and open files may not
grow beyond the bounds below, and nothing may be lost or done twice; else the exit code is 1. Times are shown
and not judged.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from embedrun.files import is_alive

_ROOT = Path(__file__).resolve().parents[2]
_LOOK = 0.1  # seconds between two looks at how far a run has come
_READS = 5  # of memory and files at one moment; the least counts, since a file that is being written is open
_EVERY = 500  # steps from one dev score and checkpoint to the next
_MIB = 2**20

_WARM = 1_000  # steps after which the trackers have loaded what they need

# Growth after the first tenth.
MOST_RUN = 8.0  # MiB of the process that trains
MOST_TRACKER = 24.0  # MiB of all trackers' processes
MOST_SWEEP = 16.0  # MiB of a sweep's process

_TINY = (
    "+experiment=quickstart",
    "dataset.train_rows=48",
    "dataset.dev_rows=16",
    "dataset.test_rows=16",
    "backbone.scratch.layers=1",
    "backbone.scratch.width=16",
    "loss=cosent",
    "training.batch_size=4",
)


@dataclass(frozen=True)
class Sample:
    """One process at one moment.

    Args:
        done: steps or jobs.
        seconds: since its start.
        memory: resident, in MiB.
        files: open descriptors.
        threads: of it.
        children: processes below it, however deep.
        below: resident memory of these, in MiB.
        writes: system calls that wrote, since its start.
    """

    done: int
    seconds: float
    memory: float
    files: int
    threads: int
    children: int
    below: float
    writes: int

    @classmethod
    def of(cls, process: int, done: int, seconds: float) -> "Sample":
        """That of a process that runs; the least of a few looks.

        Raises:
            OSError: if it has ended.
        """
        looks = []
        for _ in range(_READS):
            children = _below(process)
            looks.append(
                (
                    _memory(process),
                    len(os.listdir(f"/proc/{process}/fd")),
                    len(os.listdir(f"/proc/{process}/task")),
                    len(children),
                    sum(map(_memory, children)),
                )
            )
            time.sleep(_LOOK / _READS)
        memory, files, threads, children, below = map(min, zip(*looks, strict=True))
        return cls(done, seconds, memory, files, threads, children, below, _writes(process))


def _memory(process: int) -> float:
    try:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0.0
    return 0.0 if found is None else int(found[1]) * 1024 / _MIB


def _writes(process: int) -> int:
    found = re.search(r"syscw: (\d+)", Path(f"/proc/{process}/io").read_text())
    return 0 if found is None else int(found[1])


def _below(process: int) -> list[int]:
    """Its children, theirs, and so on."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_below(child)]
    except OSError:  # it has just ended
        pass
    return found


@dataclass
class Watched:
    """A command that ran, and what was seen of it."""

    code: int
    seconds: float
    samples: list[Sample] = field(default_factory=list)

    @property
    def settled(self) -> Sample:
        """The sample after a tenth of the work; before that, caches and pools fill."""
        return self.samples[(len(self.samples) - 1) // 10]

    def summary(self, unit: str) -> str:
        """What has become of it, in a line."""
        begin, end = self.settled, self.samples[-1]
        return (
            f"memory {begin.memory:.1f} MiB at {begin.done} {unit}, {end.memory:.1f} at {end.done}; "
            f"files {begin.files} and {end.files}, threads {begin.threads} and {end.threads}"
        )


def watch(
    folder: Path,
    arguments: Sequence[str],
    done: Callable[[], int],
    *,
    every: int,
    act: Callable[[int, int], None] = lambda done, process: None,
) -> Watched:
    """Run a command of embedrun to its end.

    Args:
        folder: where it runs; `said.txt` there gets what it prints.
        done: how far it has come.
        every: of that, a sample is taken.
        act: is told how far it has come, and the process.
    """
    started = time.monotonic()
    samples: list[Sample] = []
    with (folder / "said.txt").open("a") as said:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "embedrun", *arguments],
            cwd=folder,
            env={
                **{name: value for name, value in os.environ.items() if name != "EMBEDRUN_DATA"},
                "PYTHONPATH": str(_ROOT),
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
                "XDG_CACHE_HOME": str(folder / "cache"),
            },
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        due = done() + every
        while process.poll() is None:
            if (now := done()) >= due:
                try:
                    samples.append(Sample.of(process.pid, now, time.monotonic() - started))
                except OSError:
                    break
                due = now - now % every + every
            act(now, process.pid)
            time.sleep(_LOOK)
        process.wait()
    return Watched(process.returncode, time.monotonic() - started, samples)


def table(samples: Iterable[Sample], unit: str) -> str:
    """All samples as text."""
    lines = [
        f"{unit:>7} {'s':>7} {'MiB':>7} {'files':>5} {'threads':>7} {'below':>5} {'MiB':>7} {'writes':>8}"
    ]
    lines += [
        f"{one.done:>7} {one.seconds:>7.0f} {one.memory:>7.1f} {one.files:>5} {one.threads:>7} "
        f"{one.children:>5} {one.below:>7.1f} {one.writes:>8}"
        for one in samples
    ]
    return "\n".join(lines)


def long_run(folder: Path, steps: int) -> list[str]:
    """Train so many steps in one process, kill it, and resume for the last ones; returns what is wrong."""
    run, last = folder / "run", steps + 2 * _EVERY
    options = [
        *_TINY,
        "tracking=wandb",
        "tracking.tensorboard=true",
        f"training.epochs={last}",
        f"training.max_steps={last}",
        f"training.evaluate_every={_EVERY}",
        f"training.save_every={_EVERY}",
        "training.keep_checkpoints=2",
        "hydra.run.dir=run",
    ]
    begun: list[float] = []

    def kill(done: int, process: int) -> None:
        if done >= steps + _EVERY // 5:  # the checkpoint of `steps` is there
            os.kill(process, signal.SIGKILL)

    def step_first(*_: int) -> None:
        if len(begun) == 1 and _lines(run / "speed.jsonl") != lines:
            begun.append(time.monotonic())

    whole = watch(folder, ["train", *options], lambda: _step(run), every=max(1, steps // 50), act=kill)
    if whole.code != -signal.SIGKILL:
        return [f"the run ended with exit code {whole.code} before it was killed; see {folder / 'said.txt'}"]
    sizes = {name: (run / name).stat().st_size for name in ("metrics.jsonl", "speed.jsonl", "run.log")}
    lines = _lines(run / "speed.jsonl")
    begun.append(time.monotonic())
    rest = watch(folder, ["resume", "run"], lambda: _step(run), every=10 * last, act=step_first)
    print(table(whole.samples, "steps"))
    print(whole.summary("steps"))
    begin, end = whole.settled, whole.samples[-1]
    slope = 10_000 * (end.memory - begin.memory) / (end.done - begin.done)
    print(f"{slope:+.2f} MiB per 10,000 steps; trackers {begin.below:.1f} and {end.below:.1f} MiB")
    early, late = _per_step(whole.samples[:6]), _per_step(whole.samples[-6:])
    print(f"{1000 * early:.1f} ms a step at the beginning, {1000 * late:.1f} at the end")
    print(", ".join(f"{name} {size / _MIB:.2f} MiB" for name, size in sizes.items()))
    print(
        f"resumed, it logged a step after {begun[-1] - begun[0]:.1f} s and ended after {rest.seconds:.1f} s"
    )
    wrong = [] if rest.code == 0 else [f"the resumed run ended with exit code {rest.code}"]
    if begin.done >= _WARM:
        wrong += _grown(whole, MOST_RUN, MOST_TRACKER)
    return wrong + _lost(run, last)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _per_step(samples: Sequence[Sample]) -> float:
    first, last = samples[0], samples[-1]
    return (last.seconds - first.seconds) / max(1, last.done - first.done)


def _grown(seen: Watched, most: float, most_below: float | None = None) -> list[str]:
    """The bounds that were not kept."""
    begin, end = seen.settled, seen.samples[-1]
    found = []
    if (more := end.memory - begin.memory) > most:
        found.append(f"memory has grown by {more:.1f} MiB; at most {most:g} are allowed")
    if most_below is not None and (more := end.below - begin.below) > most_below:
        found.append(f"trackers have grown by {more:.1f} MiB; at most {most_below:g} are allowed")
    if (more := end.files - begin.files) > 0:
        found.append(f"{more} more files are open")
    if (more := end.threads - begin.threads) > 0:
        found.append(f"there are {more} more threads")
    return found


def _lost(run: Path, last: int) -> list[str]:
    """Steps whose loss, or dev score, is not in the metrics once and in order."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [row["step"] for row in rows if row["name"] == "loss"]
    dev = [row["step"] for row in rows if row["name"] == "toy_dev/spearman" and 0 < row["step"] < last]
    found = [] if losses == [1, *range(10, last + 1, 10)] else ["metrics.jsonl: losses are missing or double"]
    if Counter(dev) != Counter(range(_EVERY, last, _EVERY)):
        found.append("metrics.jsonl: dev scores are missing or double")
    kept = sorted(path.name for path in (run / "checkpoints").iterdir())
    if len(kept) > 3:  # the newest two and the best
        found.append(f"checkpoints: {', '.join(kept)} are there")
    return found


def _step(run: Path) -> int:
    try:
        return json.loads((run / "status.json").read_text()).get("step", 0)
    except FileNotFoundError:
        return 0


def many_jobs(folder: Path, jobs: int) -> list[str]:
    """A sweep of so many runs, with a job and then the sweep itself killed; returns what is wrong."""
    arguments = ["train", "-m", *_TINY, "training.max_steps=2", f"seed=range(1,{jobs + 1})"]
    runs, every = folder / "outputs" / "quickstart", max(1, jobs // 20)
    lost: list[Path] = []

    def done() -> int:
        return sum(1 for _ in runs.glob("*/results.json"))

    def kill(count: int, process: int) -> None:
        if count >= jobs // 4 and not lost:
            lost.extend(_killed(runs, process))
        if count >= jobs // 2:
            os.kill(process, signal.SIGKILL)

    first = watch(folder, arguments, done, every=every, act=kill)
    while any(map(is_alive, runs.iterdir())):
        time.sleep(_LOOK)  # its last job saves and ends
    before = _times(runs)
    rest = watch(folder, arguments, done, every=every)
    again = watch(folder, arguments, done, every=jobs)
    print(table([*first.samples, *rest.samples], "jobs"))
    print(first.summary("jobs"), rest.summary("jobs"), sep="\n")
    print(f"the same command again, with all jobs finished: {again.seconds:.1f} s")
    wrong = _grown(first, MOST_SWEEP) + _grown(rest, MOST_SWEEP)
    for command in (["runs"], ["report", "outputs/quickstart"], ["table", "outputs/quickstart"]):
        ended = watch(folder, command, done, every=jobs)
        print(f"{' '.join(command)}: {ended.seconds:.1f} s")
        wrong += [f"{command[0]}: exit code {ended.code}"] if ended.code else []
    if [first.code, rest.code, again.code] != [-signal.SIGKILL, 0, 0]:
        wrong.append(f"exit codes {first.code}, {rest.code} and {again.code}; see {folder / 'said.txt'}")
    if not before.items() <= _times(runs).items():
        wrong.append("a finished job was run again")
    if list(map(_attempts, lost)) != [2]:
        wrong.append(f"the job that was killed was not resumed: {lost}")
    return wrong + _summary(runs, jobs, len(before))


def _times(runs: Path) -> dict[Path, int]:
    """When each job wrote its results."""
    return {path: path.stat().st_mtime_ns for path in runs.glob("*/results.json")}


def _attempts(run: Path) -> int:
    return json.loads((run / "status.json").read_text())["attempts"]


def _killed(runs: Path, sweep: int) -> list[Path]:
    """Kill the job that a sweep runs, if it has begun; gives its run directory then."""
    begun = [path.parent for path in runs.glob("*/config.yaml")]
    running = [run for run in begun if not (run / "results.json").exists()]
    if running:
        os.kill(_below(sweep)[0], signal.SIGKILL)
    return running


def _summary(runs: Path, jobs: int, before: int) -> list[str]:
    """What is wrong with the summaries of the command that ended the sweep and the one after it."""
    records = sorted(runs.glob("sweeps/*/sweep.json"), key=lambda path: path.stat().st_mtime_ns)[-2:]
    found = []
    for path, finished in zip(records, (before, jobs), strict=True):
        states = Counter(job["state"] for job in json.loads(path.read_text())["jobs"])
        if states != +Counter({"finished before": finished, "finished": jobs - finished}):
            found.append(f"{path}: {dict(states)} of {jobs} jobs, of which {finished} had finished before")
    states = [json.loads(path.read_text())["state"] for path in runs.glob("*/status.json")]
    if states != ["finished"] * jobs:
        found.append(f"{runs}: {dict(Counter(states))} runs, and {jobs} finished ones are expected")
    return found


def main() -> int:
    """Run both parts; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=50_000, help="of the long run; 0: none")
    parser.add_argument("--jobs", type=int, default=200, help="of the sweep; 0: none")
    parser.add_argument("--folder", type=Path, default="build/soak", help="for everything; it may not exist")
    asked = parser.parse_args()
    wrong = []
    for name, part, count in (("run", long_run, asked.steps), ("sweep", many_jobs, asked.jobs)):
        if count:
            place = asked.folder.resolve() / name
            place.mkdir(parents=True)
            wrong += part(place, count)
    print("\n".join(wrong) if wrong else "nothing has grown, nothing is lost")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
