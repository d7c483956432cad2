"""Everything that the page of a run says, as plain facts."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from embedrun import files as small_yaml
from embedrun.console import numbers
from embedrun.report.about import Entries, environment_entries, is_training, pairs, summary
from embedrun.report.curves import Panel, panels
from embedrun.report.headline import Headline, State, headline
from embedrun.report.images import Image, images
from embedrun.report.listing import Entry, listing
from embedrun.report.metrics import Metrics, Speed
from embedrun.report.scores import ScoreTable, table
from embedrun.report.seen import Seen, seen
from embedrun.report.worst import ScoredPairs, Worst, worst
from embedrun.runs.directory import to_yaml


class RunFiles(Protocol):
    """The small files of a run directory, as they were read; what is not there is empty."""

    @property
    def path(self) -> Path:
        """Of the directory."""
        ...

    @property
    def status(self) -> Mapping[str, Any]:
        """Of `status.json`."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """Of `config.yaml`."""
        ...

    @property
    def environment(self) -> Mapping[str, Any]:
        """Of `environment.json`."""
        ...

    @property
    def results(self) -> Mapping[str, Any]:
        """Of `results.json`."""
        ...


@dataclass(frozen=True)
class Facts:
    """What the page says, in its order.

    Args:
        name: of the experiment.
        command: `train` or `evaluate`.
        directory: of the run, as the user named it.
        state: how the run stands.
        headline: its main score; None while there is none.
        summary: what the run was.
        scores: all of them.
        source: of the published numbers; empty for none.
        panels: charts of the values by step.
        images: plots.
        worst: pairs, by set.
        seen: evaluation rows that the model has seen.
        rule: when two texts count as one.
        config: as YAML; empty while there is none.
        overrides: what was asked for.
        repeat: the command that makes this run again; empty while that is not known.
        go_on: the command that goes on with it; empty where it has finished.
        environment: versions and machine.
        versions: of packages.
        data: fingerprints of the rows that were read.
        counts: rows and steps.
        notes: what else decided the scores, as YAML; empty for nothing.
        files: of the directory.
        remarks: what could not be read or is not shown.
    """

    name: str
    command: str
    directory: str
    state: State
    headline: Headline | None
    summary: Entries
    scores: ScoreTable
    source: str
    panels: list[Panel]
    images: list[Image]
    worst: list[Worst]
    seen: list[Seen]
    rule: str
    config: str
    overrides: list[str]
    repeat: str
    go_on: str
    environment: Entries
    versions: Entries
    data: Entries
    counts: Entries
    notes: str
    files: list[Entry]
    remarks: list[str]


def gather(
    run: RunFiles,
    *,
    predictions: Sequence[ScoredPairs] = (),
    published: Mapping[str, float] | None = None,
    source: str = "",
    remarks: Sequence[str] = (),
) -> Facts:
    """The facts of a run, finished or not.

    Args:
        run: its small files.
        predictions: on sets of graded pairs, the most important first.
        published: the paper's numbers for this run, by the key of `results.json`.
        source: where they are printed, ``"arXiv:2309.12871, Table 4"``.
        remarks: what the caller could not read.
    """
    config = {key: value for key, value in run.config.items() if key != "schema"}
    said = list(remarks)
    contamination = _contamination(run.path / "contamination.json", said)
    overrides = _overrides(run.path / "overrides.yaml", said)
    metrics = Metrics.read(run.path / "metrics.jsonl")
    if metrics.faults:
        said.append(f"metrics.jsonl: {metrics.faults:,} of its lines cannot be read")
    keys = {one.name: one.key for one in predictions}
    shown, left_out = images(run.path / "plots", keys, numbers(run.results.get("scores")))
    state = State.of(run.status)
    command = "train" if is_training(config) or not config.get("model") else "evaluate"
    return Facts(
        name=str(config.get("name") or run.path.resolve().name),
        command=command,
        directory=str(run.path),
        state=state,
        headline=headline(run.results, published or {}),
        summary=summary(config, run.results, run.environment, Speed.read(run.path / "speed.jsonl")),
        scores=table(run.results, published or {}),
        source=source,
        panels=panels(metrics),
        images=shown,
        worst=[found for one in predictions if (found := worst(one)) is not None],
        seen=seen(contamination),
        rule=str(contamination.get("rule") or ""),
        config=to_yaml(config) if config else "",
        overrides=overrides,
        repeat=_repeat(command, overrides, run.environment.get("command")) if config else "",
        go_on="" if state.known == "finished" else f"embedrun resume {shlex.quote(str(run.path))}",
        environment=environment_entries(run.environment),
        versions=[one for one in pairs(run.environment.get("versions")) if one[1] != "–"],
        data=pairs(run.environment.get("data")),
        counts=pairs(run.results.get("counts")),
        notes=_notes(run.results.get("notes")),
        files=listing(run.path),
        remarks=[*said, *left_out],
    )


def _repeat(command: str, overrides: Sequence[str], typed: Any) -> str:
    """The command that makes the run again, with the folder of YAML that the one which made it named.

    Args:
        command: `train` or `evaluate`.
        overrides: what was asked for.
        typed: the command line that made the run, as `environment.json` has it.
    """
    try:
        words = shlex.split(typed) if isinstance(typed, str) else []
    except ValueError:  # changed by hand
        words = []
    folder: list[str] = []
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in ("--config-dir", "-cd"):
            folder = ["--config-dir", *([value] if equals else words[place + 1 : place + 2])]
    return shlex.join(["embedrun", command, *overrides, *folder])


def _contamination(path: Path, said: list[str]) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        said.append(f"{path.name} cannot be read")
        return {}
    return found


def _overrides(path: Path, said: list[str]) -> list[str]:
    if not path.is_file():
        return []
    try:
        found = small_yaml.read_yaml(path)
    except (OSError, ValueError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        said.append(f"{path.name} cannot be read")
        return []
    return found


def _notes(notes: Any) -> str:
    return to_yaml(notes) if isinstance(notes, Mapping) and notes else ""
