"""Averages of the weights of several trainings, and whether one is better than the best of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path

import torch

from embedrun.backbone.adapter import has_adapter
from embedrun.config import BackboneConfig, PoolingConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.scores import Scores
from embedrun.experiment import data, scoring
from embedrun.experiment.plan import TrainPlan, plan_train
from embedrun.experiment.scoring import Scorer
from embedrun.report.diff import changes
from embedrun.runs.reading import RunFiles
from embedrun.store import Store

Weights = Mapping[str, torch.Tensor]


def mean(parts: Sequence[Weights], shares: Sequence[float]) -> dict[str, torch.Tensor]:
    r"""The weighted mean :math:`\sum_i s_i \theta_i` of weights of one shape, summed in float64.

    Sources: Wortsman et al. 2022, Model soups (arXiv:2203.05482), of trainings from one start; Xiao et al.
    2023, LM-Cocktail (arXiv:2311.13534), with the start among them. What is no floating-point number is that
    of the first.
    """
    first = parts[0]
    return {
        name: reduce(
            add, (share * part[name].double() for part, share in zip(parts, shares, strict=True))
        ).to(weight.dtype)
        if weight.is_floating_point()
        else weight
        for name, weight in first.items()
    }


def _differing(parts: Mapping[str, Weights]) -> list[str]:
    """Why weights cannot be averaged."""
    (first, wanted), *others = parts.items()
    shapes = {name: weight.shape for name, weight in wanted.items()}
    problems = []
    for other, weights in others:
        found = {name: weight.shape for name, weight in weights.items()}
        names = [name for name in {**shapes, **found} if shapes.get(name) != found.get(name)]
        if names:
            problems.append(
                f"{other} and {first} are not of one shape: {names[0]} differs; merge runs of one"
            )
    return problems


@dataclass
class Candidate:
    """One model: its weights, and its scores on dev and test where they are asked for."""

    label: str
    weights: Weights
    dev: dict[str, float] = field(default_factory=dict)
    test: dict[str, Scores] = field(default_factory=dict)


@dataclass(frozen=True)
class Merged:
    """What was found: every candidate, the one that was chosen, and the best single one."""

    candidates: list[Candidate]
    chosen: Candidate
    single: Candidate

    def gains(self) -> dict[str, tuple[float, float, tuple[float, float]]]:
        """By test score: of the best single model, of the chosen one, the interval of the difference."""
        before, after = scoring.flat(self.single.test), scoring.flat(self.chosen.test)
        ends = changes(self.single.test, self.chosen.test)
        return {key: (before[key], after[key], both) for key, both in ends.items() if key in after}


class Merging:
    """Models of runs that are averaged.

    Args:
        runs: run directories, checkpoints or model folders, by how a person calls them.
        start: a model that is averaged with them; ``start`` is the one that the first run began with.
    """

    def __init__(self, runs: Sequence[str], start: str | None) -> None:
        self.encoder, self._runs = Encoder.load(runs[0]), runs
        models = {runs[0]: self.encoder, **{run: Encoder.load(run) for run in runs[1:]}}
        if start is not None:
            models[start] = self._start(start)
        if adapted := [name for name, model in models.items() if has_adapter(model.backbone.model)]:
            raise ConfigError(
                f"{adapted[0]}: the mean of two adapters is no adapter; export each with --merge-lora first"
            )
        # Copies, since the encoder of the first gets the weights of every candidate.
        parts = {
            name: {key: weight.clone() for key, weight in model.state_dict().items()}
            for name, model in models.items()
        }
        if problems := _differing(parts):
            raise ConfigError(problems)
        self._begin = parts.pop(start) if start is not None else None
        self._parts = parts

    def _start(self, name: str) -> Encoder:
        if name != "start":
            return Encoder.load(name)
        backbone = _config(self._runs[0])["backbone"]
        if backbone["name"] is None:
            raise ConfigError(f"--with start: {self._runs[0]} was trained from scratch; name a model")
        options = {key: backbone[key] for key in ("name", "revision", "layers")}
        return Encoder.build(BackboneConfig(**options), PoolingConfig(), seed=0).eval()

    def candidates(self, shares: Sequence[float]) -> list[Candidate]:
        """The single models, their mean, and the mean beside the start with each share."""
        single = [Candidate(name, weights) for name, weights in self._parts.items()]
        many = len(single)
        whole = mean(list(self._parts.values()), [1 / many] * many)
        label = f"mean of {many}"
        if self._begin is None:
            return [*single, Candidate(label, whole)]
        mixed = [
            Candidate(
                f"{share:g} x {label if many > 1 else 'run'}", mean([whole, self._begin], [share, 1 - share])
            )
            for share in shares
        ]
        return [*single, *([Candidate(label, whole)] if many > 1 else []), *mixed]

    def chosen(self, shares: Sequence[float], choose_by: str | None) -> Merged:
        """Score every candidate on the dev rows of the first run, and the best on its test rows.

        Without `choose_by`, a key of a dev score, nothing is scored and the last candidate is taken.
        """
        every = self.candidates(shares)
        if choose_by is None:
            return Merged(every, every[-1], every[0])
        plan = plan_train(_config(self._runs[0]))
        config, store = plan.config, Store.find(plan.config.data_dir)
        key = scoring.on_dev(choose_by)
        data.check_places(data.read_splits(plan), plan.tasks, config.backbone, None, store)
        dev, test = _scorers(plan, store)
        for candidate in every:
            self.encoder.load_state_dict(candidate.weights)
            candidate.dev = scoring.flat(scoring.dev_alone(dev.score(self.encoder, "score dev")))
            scoring.check_keys({"--choose-by": [key]}, candidate.dev)
        best = max(every, key=lambda candidate: candidate.dev[key])
        single = max(every[: len(self._parts)], key=lambda candidate: candidate.dev[key])
        for candidate in (single, best):
            self.encoder.load_state_dict(candidate.weights)
            candidate.test = candidate.test or test.score(self.encoder, "score test")
        return Merged(every, best, single)


def _config(run: str) -> dict:
    folder = Path(run)
    for place in (folder, folder.parent, folder.parent.parent):  # of a checkpoint, its run
        if (place / "config.yaml").is_file():
            return {key: value for key, value in RunFiles(place).config.items() if key != "schema"}
    raise DataError(
        f"{run}: is of no run, which says on what it was trained and scored; name a run directory"
    )


def _scorers(plan: TrainPlan, store: Store) -> tuple[Scorer, Scorer]:
    evaluation = plan.config.evaluation
    divided = data.divided(plan, store)
    dev = scoring.dev_scorer(plan.dev_tasks, divided.dev, store, evaluation)
    return dev, Scorer.read(plan.tasks, plan.dataset, store, evaluation)
