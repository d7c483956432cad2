"""Small files of JSON and YAML that were changed: they are read, or refused in one of embedrun's messages."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import fuzz
import numpy as np

from embedrun import files
from embedrun.backbone import declared, of_run
from embedrun.curation.annotation import output as annotation
from embedrun.curation.generation.llm import Answer, Responses
from embedrun.dataset.nli_scored import NliScored
from embedrun.evaluation.scores import Scores
from embedrun.experiment.scoring import Kept
from embedrun.launch import summary
from embedrun.report.charts import Metrics, Speed, panels
from embedrun.rows import Rows
from embedrun.runs import sums
from embedrun.store import Store, cache
from embedrun.store.catalogue import Catalogue
from embedrun.study.tune.trial import _DevScores
from embedrun.table import statistics
from embedrun.table.formats import from_json
from embedrun.training import checkpoint as checkpoints

Reader = Callable[[Random, Path], object]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _plain(random: Random, folder: Path) -> None:
    """Both readers say what is wrong by ValueError, and what cannot be read by OSError."""
    data = {"name": "a", "seed": 1, "lr": 1e-5, "terms": {"a": [1, None, True]}, "when": "2026-01-01"}
    make, read = random.choice(((fuzz.json_text, files.read_json), (fuzz.yaml_text, files.read_yaml)))
    path = folder / "a"
    fuzz.write(random, path, make(random, data))
    try:
        read(path)
    except (OSError, ValueError):
        return


ENTRY = {"bytes": 2, "sha256": "0" * 64}


def _sums(random: Random, folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    sound = {"schema": 1, "files": {"config.json": ENTRY, "1_Pooling/config.json": ENTRY}}
    fuzz.write(random, folder / "manifest.json", fuzz.json_text(random, sound))
    sums.verify(folder, every_byte=random.random() < 0.5)


def _checkpoint(random: Random, folder: Path) -> None:
    own = folder / "checkpoints" / "step-00000010"
    sound = {"schema": 1, "step": 10, "files": {name: ENTRY for name in checkpoints.FILES}}
    fuzz.write(random, own / checkpoints.MANIFEST, fuzz.json_text(random, sound))
    state = {"step": 10, "best": {"step": 10, "score": 80.0}, "optimizer": "AdamW"}
    fuzz.write(random, own / checkpoints.STATE, fuzz.json_text(random, state))
    assert all(isinstance(one, str) for one in checkpoints.verify(own))
    checkpoints.best_of(own.parent, 10)
    checkpoints._best_then(own)
    if own.is_dir() and (own / checkpoints.MANIFEST).is_file():
        of_run.verify(own)
    checkpoints.newest(own.parent, expected=10)


PIECES = {"task": "sts", "piece": "stsb", "main": "stsb/spearman", "scores": {"stsb/spearman": 80.0},
          "intervals": {"stsb/spearman": [79.0, 81.0]}, "shown": ["stsb"], "notes": {},
          "predictions": []}  # fmt: skip


def _pieces(random: Random, folder: Path) -> None:
    kept = Kept(folder)
    kept.save("sts", "stsb", Scores({"stsb/spearman": 80.0}, "stsb/spearman"))
    (path,) = (folder / ".parts").glob("*.part")
    path.unlink()
    fuzz.write(random, path, fuzz.json_text(random, PIECES))
    for pieces in kept.load().values():
        for piece in pieces.values():
            kept.save("sts", "again", piece)
    vectors = np.eye(2)
    fuzz.write(random, folder / ".parts" / "probe.json", fuzz.json_text(random, vectors.tolist()))
    kept.hold_to(vectors)


def _statistics(random: Random, folder: Path) -> None:
    path = folder / "provenance.json"
    fuzz.write(random, path, fuzz.json_text(random, {"length_unit": "tokens", "splits": {"train": 5}}))
    found = statistics._read(path)
    assert found is None or isinstance(found, dict)


ROW = {"label": "a", "group": "", "entries": [], "notes": [], "origins": [{"columns": ["b"]}]}
SHEETS = {"schema": 1, "tables": [{"columns": [{"heading": "a"}], "rows": [ROW], "seeds": [1],
                                   "overrides": [], "notes": [], "commands": [], "told": []}]}  # fmt: skip


def _sheets(random: Random, folder: Path) -> None:
    from_json(fuzz.json_text(random, SHEETS))


def _curves(random: Random, folder: Path) -> None:
    rows = [
        {"step": 10 * step, "epoch": 0.1, "split": split, "name": name, "value": 1.5}
        for step in range(4)
        for split, name in (("train", "loss"), ("train", "loss/cosent"), ("dev", "stsb_dev/spearman"))
    ]
    lines = [fuzz.json_text(random, row).replace("\n", " ") if random.random() < 0.3 else json.dumps(row)
             for row in rows]  # fmt: skip
    fuzz.write(random, path := folder / "metrics.jsonl", fuzz.text(random, "\n".join(lines) + "\n", more=1))
    for panel in panels(Metrics.read(path)):
        assert panel.charts
    Speed.read(path)
    if path.is_file():
        _DevScores(path, random.choice((None, "stsb_dev/spearman"))).metric()


OWN = {
    "schema": 2,
    "pooling": "mean",
    "first_layer": None,
    "normalize": True,
    "max_length": 128,
    "head": None,
}
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "a.Transformer"},
           {"idx": 1, "name": "1", "path": "1_Pooling", "type": "a.Pooling"},
           {"idx": 2, "name": "2", "path": "2_Dense", "type": "a.Dense"}]  # fmt: skip
MODEL = {
    "config.json": {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "auto_map": None},
    "modules.json": MODULES,
    "1_Pooling/config.json": {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True},
    "2_Dense/config.json": {"in_features": 16, "out_features": 16, "activation_function": "torch.nn.Tanh"},
    "sentence_bert_config.json": {"max_seq_length": 128, "do_lower_case": False},
    "config_sentence_transformers.json": {"prompts": {"query": "q: "}, "default_prompt_name": None},
}


def _model(random: Random, folder: Path) -> None:
    sound: dict[str, Any] = MODEL if random.random() < 0.7 else {"embedrun.json": OWN}
    changed = random.choice(list(sound))
    for name, data in sound.items():
        text = fuzz.json_text(random, data) if name == changed else json.dumps(data)
        fuzz.write(random, folder / name, text)
    declared.read(folder)
    declared.read_config(folder)


class _Llm:
    label, settings = "a", {"kind": "local"}


def _stored_answers(random: Random, folder: Path) -> None:
    Responses(folder, "a").keep(_Llm(), "p", Answer("1. a"))  # type: ignore[arg-type]
    sound = json.loads((folder / "a.jsonl").read_text())
    (folder / "a.jsonl").unlink()
    fuzz.write(random, folder / "a.jsonl", fuzz.json_text(random, sound))
    found = Responses(folder, "b").get(_Llm(), "p")  # type: ignore[arg-type]
    assert found is None or isinstance(found.text, str)


SCORED = {"text1": "a", "text2": "b", "label": 0, "score": 0.5, "score_1": 0.5}


def _annotated(random: Random, folder: Path) -> None:
    lines = [json.dumps(SCORED), fuzz.json_text(random, SCORED).replace("\n", " "), json.dumps(SCORED)]
    packed = gzip.compress("\n".join(lines).encode("utf-8", "surrogatepass"), 1)
    path = folder / annotation.SCORED
    fuzz.write(random, path, fuzz.data(random, packed) if random.random() < 0.2 else packed)
    sound = {"schema": 1, "labels": {}, "file": {"path": path.name, "rows": 3, "sha256": "0" * 64}}
    fuzz.write(random, folder / annotation.PROVENANCE, fuzz.json_text(random, sound))
    data = NliScored(path=str(folder))
    if not data.problems("train", Store(folder)):
        assert isinstance(data.read("train", Store(folder)), Rows)


def _kept(random: Random, folder: Path) -> None:
    def make(place: Path) -> None:
        (place / "a").write_text("a")

    path = cache.kept("fuzz", {"number": random.random()}, make, what="it")
    entry = path / "entry.json"
    sound = json.loads(entry.read_text())
    entry.unlink()
    fuzz.write(random, entry, fuzz.json_text(random, sound))
    cache.summary(cache.entries())
    cache.clean()


def _sweeps(random: Random, folder: Path) -> None:
    summary.begin(folder, "train", ["a", "b"])
    (path,) = folder.iterdir()
    sound = json.loads(path.read_text())
    path.unlink()
    fuzz.write(random, path, fuzz.json_text(random, sound))
    assert summary.is_of(folder, "train", ["a", "b"]) in (True, False)


HUB = {"data_sets": {"stsb": {"about": "a", "licence": "b", "files": {"stsb/test.tsv.gz": {"rows": 5}}}},
       "groups": {"sts": ["stsb"]}}  # fmt: skip


def _catalogue(random: Random, folder: Path) -> None:
    fuzz.write(random, path := folder / "hub.yaml", fuzz.yaml_text(random, HUB))
    Catalogue.read(path)


KINDS: dict[str, Reader] = {
    one.__name__.strip("_"): one
    for one in (_plain, _sums, _checkpoint, _pieces, _statistics, _sheets, _curves, _model, _stored_answers,
                _annotated, _kept, _sweeps, _catalogue)
}  # fmt: skip


def _of_all(fresh: Callable[[], Path]) -> fuzz.Read:
    def read(random: Random) -> None:
        KINDS[random.choice(list(KINDS))](random, fresh())

    return read


@fuzz.sizes(few=100, many=34_000)
def test_small_files(count, fresh):
    fuzz.trial("small files", count, _of_all(fresh))
