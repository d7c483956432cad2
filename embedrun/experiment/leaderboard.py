"""Result files of the mteb package for its leaderboard, with what the model has seen of its tasks."""

from collections.abc import Mapping
from pathlib import Path

from embedrun.encoder import Encoder
from embedrun.evaluation import mteb
from embedrun.evaluation.scores import Scores, Task
from embedrun.experiment.card import made_of
from embedrun.files import to_json, write_atomically
from embedrun.runs.listing import title
from embedrun.runs.reading import RunFiles, run_behind
from embedrun.store.catalogue import Catalogue

FOLDER = "mteb"  # in a run directory; mteb.ResultCache reads it


def write(folder: Path, tasks: Mapping[str, Task], scored: Mapping[str, Scores], encoder: Encoder) -> None:
    """Write `mteb/results/<model>/<revision>/`: a file for each task of mteb, and `model_meta.json`."""
    run = RunFiles.read(folder, strict=False)
    for name, task in tasks.items():
        if not (files := scored[name].files):
            continue
        label, _, commit = (getattr(task, "publish_as", None) or f"embedrun/{title(run)}").partition("@")
        trained = run_behind(run.config["model"]) if "model" in run.config else run
        base = None if trained is None else made_of(trained)
        meta = mteb.model_meta(
            name=label,
            revision=commit or "no_revision_available",
            embed_dim=encoder.dim,
            max_tokens=encoder.max_length,
            n_parameters=sum(weight.numel() for weight in encoder.parameters()),
            use_instructions=any((getattr(task, "prompts", {}), encoder.prompt, *encoder.roles.values())),
            training_datasets=None if trained is None else seen(trained) | seen_in(run),
            adapted_from=None if base is None or base["base_is_local"] else base["base_model"],
        )
        place = folder / FOLDER / "results" / label.replace("/", "__").replace(" ", "_") / meta["revision"]
        place.mkdir(parents=True, exist_ok=True)
        for file, data in {**files, "model_meta": meta}.items():
            write_atomically(place / f"{file}.json", to_json(data))


def seen(run: RunFiles) -> set[str]:
    """The data sets of all trainings behind a run's model, and those of which its own audit found rows.

    By the names of mteb's tasks; a data set of which mteb has none is called as it is here.
    """
    names = {source.name for source in made_of(run)["sources"]}
    return {task for name in names for task in _tasks_of(name)} | seen_in(run)


def seen_in(run: RunFiles) -> set[str]:
    """mteb's names of the scored sets of which the audit of a run found rows in the training data."""
    sets = (run.contamination.get("training") or {}).get("sets") or []
    names = {line["name"] for line in sets if line["pairs"] or (line["pairs"] is None and line["sentences"])}
    return {task for name in names for task in _tasks_of(name)}


def _tasks_of(name: str) -> list[str]:
    known = Catalogue.read().data_sets.get(name)
    return (known.mteb if known else []) or [name]
