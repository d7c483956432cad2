"""The predictions of a run on graded pairs, with the texts of these."""

import re
from collections.abc import Mapping

import numpy as np

from embedrun import family
from embedrun.config.mixture import data_sets
from embedrun.dataset import DataSet
from embedrun.dataset.named import data_split, unreadable
from embedrun.dataset.split import hold_out
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain
from embedrun.report.diff import STS_SETS, Predictions, files, place, score_key
from embedrun.report.scores import ScoredPairs
from embedrun.rows import Rows
from embedrun.runs.reading import RunFiles
from embedrun.store import Store

_RUN_SPLIT = re.compile(r"(.+)_(train|dev|test)")  # predictions on a split of the run's own data set
_GONE = "so that only the rows are named."


def scored_pairs(run: RunFiles) -> tuple[list[ScoredPairs], list[str]]:
    """Every set of graded pairs that a run has predictions on, and what cannot be read, a line each.

    The set of the main score comes first, those of dev splits last, those of STS in the papers' order.
    """
    pairs, remarks = [], []
    for name, path in files(run.path).items():
        try:
            predictions = Predictions.read(path)
        except DataError as fault:
            remarks += [problem.replace(str(path), f"predictions/{path.name}") for problem in fault.problems]
            continue
        if predictions.kind == "correlation" and predictions.gold is not None:
            texts, missing = _texts(run, name, predictions.gold)
            key = score_key(name, run.scores)
            pairs.append(ScoredPairs(name, key, predictions.gold, predictions.predicted, texts, missing))
    main = run.main.get("name")
    pairs.sort(key=lambda pair: (pair.key != main, pair.name.endswith("_dev"), place(pair.name)))
    return pairs, remarks


def _texts(run: RunFiles, name: str, gold: np.ndarray) -> tuple[tuple[list[str], list[str]] | None, str]:
    try:
        dataset, split = _data_set(run.config, name)
        store = Store.find(run.config.get("data_dir"))
        was_held_out = split == "dev" and split not in dataset.splits  # out of the training rows
        read = "train" if was_held_out else split
        if unreadable([(dataset, read)], store):
            return None, f"The texts of {name} are not in the data folder that EMBEDRUN_DATA names, {_GONE}"
        rows = dataset.read(read, store)
        if was_held_out:
            of_parts = data_sets(run.config["dataset"])
            options = of_parts.get("") or of_parts[name.removesuffix("_dev")]
            rows = hold_out(rows, options.get("split_seed", 42)).dev or rows
    except (ConfigError, DataError, KeyError, ValueError, TypeError, AttributeError, ImportError, OSError):
        return None, f"The texts of {name} cannot be read again, {_GONE}"
    if not _same(rows, gold, run.data):
        return None, f"The rows of {name} at hand are not those that this run read, {_GONE}"
    return (list(rows.texts["left"]), list(rows.texts["right"])), ""


def _data_set(config: Plain, name: str) -> tuple[DataSet, str]:
    if name in STS_SETS:
        return data_split(name, "test")
    group, part = config.get("dataset"), _RUN_SPLIT.fullmatch(name)
    if isinstance(group, Mapping) and part:
        of_parts = data_sets(group)
        group = of_parts.get(part[1], of_parts.get("", group))
        options = {key: value for key, value in group.items() if key not in ("name", "roles")}
        dataset: DataSet = family.find("dataset", str(group.get("name")))(**options)
        if part[1] in (dataset.name, *of_parts):
            return dataset, part[2]
    return data_split(name, "test")


def _same(rows: Rows, gold: np.ndarray, read: Plain) -> bool:
    name = f"{rows.name}/{rows.split}."
    known = [value for key, value in read.items() if f"{key}.".startswith(name)]
    # Of a part of a mixture, whose dev rows are read together with others, the scores are all that is known.
    is_known = rows.fingerprint() in known or (not known and any(key.startswith("mix/") for key in read))
    return rows.form == "pair" and is_known and np.array_equal(rows.targets["score"], gold)
