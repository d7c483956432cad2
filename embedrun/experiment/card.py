"""What a run directory says about its model, for the model card."""

import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from embedrun import family
from embedrun.card import Source
from embedrun.config import Checker
from embedrun.config.mixture import alone
from embedrun.dataset import DataSet, files_of
from embedrun.experiment.losses import papers, plan_losses, sources
from embedrun.files import Plain
from embedrun.report.scores import change_lines
from embedrun.runs.directory import to_yaml
from embedrun.runs.reading import CHANGES, STAGES, RunFiles
from embedrun.runs.search import MODEL
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue

_KINDS = {"training": "training data", "selection": "dev data, which selected the checkpoint"}
_COMMIT = re.compile(r"[0-9a-f]{40}")  # the mark of a folder is a SHA-256, of 64
_CLEAN = "Scores whose names end in `_clean` leave them out."


def run_of(folder: Path) -> Path | None:
    """The run directory of a training that a run directory or its `model/` is of; None for any other folder.

    An evaluation has a model, too, where it whitened one, but nothing was trained.
    """
    for place in (folder, folder.parent):
        if (place / "config.yaml").is_file() and (place / "results.json").is_file():
            return None if "model" in RunFiles(place, strict=False).config else place
    return None


def facts_of(run: Path) -> Plain:
    """The arguments of `card_text` that a finished run gives, if its files are as embedrun wrote them."""
    files = RunFiles(run)
    config = {key: value for key, value in files.config.items() if key != "schema"}
    return {
        **made_of(files),
        "scores": files.results["scores"],
        "baseline": files.results["baseline"],
        "config_yaml": to_yaml(_published(config)),
        "hub_ids": _hub_ids(),
        "facts": _facts(config, files.results, files.environment),
        "contamination": _contamination(files.contamination, staged=STAGES in files.environment),
    }


def made_of(run: RunFiles) -> Plain:
    """Base model, data and papers of a run and of the trainings before it, as `card_text` takes them."""
    stages = [*run.environment.get(STAGES, []), {"config": run.config, "data": run.data}]
    configs = [stage["config"] for stage in stages]
    parts = [part for config in configs for _, part in alone(config)]
    data = [_dataset(config) for config in parts]
    losses = [plan_losses(Checker(), *both) for both in zip(parts, data, strict=True)]
    return {
        "base_model": configs[0]["backbone"]["name"],
        "base_is_local": _base_is_local(configs[0], stages[0]),
        "dataset": ", then on ".join(_named(config) for config in configs),
        "sources": list(dict.fromkeys(chain(*map(_sources, parts, data)))),
        "citations": list(dict.fromkeys(chain(*map(sources, losses)))),
        "bibtex": list(dict.fromkeys(chain(*map(papers, losses)))),
    }


def _named(config: Plain) -> str:
    names = [part["dataset"]["name"] for _, part in alone(config)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} together"


def _base_is_local(config: Plain, environment: Plain) -> bool | None:
    # A relative folder that is not there any more looks like an id of the hub, of which the mark is a commit.
    name, revision = config["backbone"]["name"], config["backbone"].get("revision")
    mark = environment.get("data", {}).get(f"{MODEL}{name}" + ("" if revision is None else f"@{revision}"))
    return None if mark is None else not _COMMIT.fullmatch(mark.partition(" ")[0])


def _hub_ids() -> dict[str, str]:
    return {
        name: hubs[0].repo
        for name, known in Catalogue.read().data_sets.items()
        if (hubs := [file.hub for file in known.files.values() if file.hub is not None])
    }


def _dataset(config: Plain) -> DataSet | None:
    """The training data set; None where it cannot be made any more."""
    options = {key: value for key, value in config["dataset"].items() if key not in ("name", "roles")}
    try:
        return family.find("dataset", config["dataset"]["name"])(**options)
    # Of another version, or of a package that is not here or broken.
    except (family.Unloadable, ImportError, AttributeError, TypeError, ValueError):
        return None


def _sources(config: Plain, dataset: DataSet | None) -> list[Source]:
    catalogue = Catalogue.read()
    store = Store.find(config.get("data_dir"))
    files = [] if dataset is None else files_of(dataset, "train", store)
    names = dict.fromkeys(name for file in files if (name := catalogue.data_set_of(file)))
    if names:
        known = catalogue.data_sets
        hub_ids = _hub_ids()
        return [Source(name, known[name].about, known[name].licence, hub_ids.get(name)) for name in names]
    about = (type(dataset).__doc__ or "").strip().split("\n")[0] if dataset is not None else ""
    return [Source(config["dataset"]["name"], about.rstrip("."), "not known to embedrun")]


def _facts(config: Plain, results: Plain, environment: Plain) -> list[str]:
    counts, training = results["counts"], config["training"]
    before = [stage["config"] for stage in environment.get(STAGES, [])]
    facts = []
    if (layers := [*before, config][0]["backbone"].get("layers")) is not None:
        facts.append(f"It began as the first {layers} layers of its base model.")
    if before:
        facts.append(f"It was trained in {len(before) + 1} stages; of the last:")
    if (rows := counts.get("train_rows")) and (steps := counts.get("steps")):
        size, seed = training["batch_size"], config["seed"]
        facts.append(f"{steps:,} steps of {size} rows, {rows:,} rows in all, seed {seed}.")
    if (best := counts.get("best_step")) is not None:
        facts.append(f"The weights are those of step {best:,}.")
    if teachers := [teacher["name"] for teacher in training.get("teachers") or []]:
        facts.append(f"Teachers: {', '.join(_published(teachers))}.")
    changed = change_lines(results["baseline"], results["scores"], results.get(CHANGES) or {})
    facts += [f"Dev score of {line}." for line in changed]
    versions = environment["versions"]
    made = [f"{name} {versions[name]}" for name in ("embedrun", "torch", "transformers") if name in versions]
    return [*facts, f"Made with {', '.join(made)}."]


def _contamination(data: Plain, *, staged: bool) -> list[str]:
    if not data:
        return []
    seen = []
    for kind, where in _KINDS.items():
        for task, counts in data.get(kind, {}).get("tasks", {}).items():
            for unit, count in counts.items():
                if unit != "rows" and count:
                    share = f"{count:,} of {counts['rows']:,} {unit} ({100 * count / counts['rows']:.1f} %)"
                    seen.append(f"`{task}`: {share} are also in the {where}.")
    rule = f"Two texts count as one by this rule: {data['rule']}."
    if staged:
        rule += " Data of stages before the last count only where `evaluation.contamination` names them."
    return [*seen, _CLEAN, rule] if seen else [f"No evaluation row is in the training or dev data. {rule}"]


def _published(value: Any) -> Any:
    """Plain data in which paths of this machine are cut to their last part."""
    if isinstance(value, Mapping):
        return {key: _published(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_published(item) for item in value]
    if isinstance(value, str) and value.startswith(("/", "~", "./", "../")):
        return Path(value).name
    return value
