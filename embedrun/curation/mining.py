"""Hard negatives of pairs by the vectors of a teacher, mined by sentence-transformers."""

import contextlib
import hashlib
import io
import random
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from torch import Tensor

from embedrun import gpu
from embedrun.config import AnnotateConfig, MiningConfig
from embedrun.console import Progress, aligned, clean, say
from embedrun.curation import folder
from embedrun.curation.teachers import DECIMALS, check_finite, load, prompt_problem, prompted
from embedrun.dataset import DataSet
from embedrun.encoder import Encoder
from embedrun.errors import DataError, install_extra
from embedrun.family import family_name
from embedrun.files import Plain, packed, publish, to_json_line, to_json_lines
from embedrun.rows import Rows, digest_of
from embedrun.runs.directory import Outcome
from embedrun.store import sha256

TRIPLETS = "triplets.jsonl.gz"
LEFT_OUT = "left_out.jsonl"  # pairs with fewer negatives than asked for
_ENTAILMENT = 0
BLOCK = 50_000  # texts whose vectors are kept together
_COSINES_AT_ONCE = 2**26  # of anchors with all candidates: 256 MiB

Pair = tuple[str, str]  # anchor, positive


def problems(config: AnnotateConfig, dataset: DataSet | None) -> list[str]:
    """Why these options cannot mine, or mining options go with another mode; `dataset` None: faulty."""
    if config.mode != "mine":
        return ["mining: goes with mode=mine"] if config.mining != MiningConfig() else []
    problems = [
        f"{name}: goes with mode=score; mode=mine is done in one piece"
        for name in ("shard", "block_rows", "merge_only")
        if getattr(config, name) != getattr(AnnotateConfig, name)
    ]
    if len(config.teachers) > 1:
        problems.append(
            f"teachers: mode=mine takes one, got {len(config.teachers)}; "
            "pass 'teachers=[{name: HUB_ID_OR_FOLDER}]'"
        )
    problems += _range_problems(config.mining)
    for name in ("query_prompt", "corpus_prompt"):
        if problem := prompt_problem(getattr(config.mining, name)):
            problems.append(f"mining.{name}: {problem}")
    if dataset is not None:
        problems += _data_problems(dataset, config.mining.positive_from)
    if find_spec("sentence_transformers") is None:
        problems.append(f"mode=mine: needs sentence-transformers; {install_extra('mine')}")
    return problems


def _range_problems(mining: MiningConfig) -> list[str]:
    problems = []
    least = mining.range_min + mining.num_negatives
    if mining.range_max is not None and mining.range_max < least:
        problems.append(
            f"mining.range_max: {mining.range_max} leaves no room for num_negatives={mining.num_negatives} "
            f"after range_min={mining.range_min}; raise it to {least} or more"
        )
    low, high = mining.min_score, mining.max_score
    if low is not None and high is not None and low > high:
        problems.append(f"mining.min_score: {low:g} is above max_score={high:g}")
    return problems


def _data_problems(dataset: DataSet, positive_from: float | None) -> list[str]:
    name, scored = family_name(dataset), "score" in dataset.targets
    if dataset.form == "text":
        return [
            f"dataset={name}: gives single texts, and mode=mine needs pairs of an anchor and its positive; "
            "choose dataset=pairs, dataset=triplets or an NLI data set"
        ]
    if positive_from is None and scored and "label" not in dataset.targets:
        return [
            f"mining.positive_from: dataset={name} gives scores; give the one from which a pair is an anchor "
            "and its positive"
        ]
    if positive_from is not None and not scored:
        return [f"mining.positive_from: dataset={name} gives no score; leave it null"]
    return []


def positive_pairs(rows: Rows, positive_from: float | None) -> list[Pair]:
    """Anchors and positives, each pair once, in the order of the rows.

    Those with a score of `positive_from` or more; where that is None, entailments of rows with a label, else
    all rows.
    """
    if positive_from is not None:
        kept = rows.targets["score"] >= positive_from  # (rows,)
    elif "label" in rows.targets:
        kept = rows.targets["label"] == _ENTAILMENT  # (rows,)
    else:
        kept = np.ones(len(rows), dtype=bool)  # (rows,)
    both = zip(rows.texts["left"], rows.texts["right"], kept.tolist(), strict=True)
    return list(dict.fromkeys((left, right) for left, right, keep in both if keep))


class Model:
    """A teacher as `mine_hard_negatives` asks for a model: vectors of anchors and of candidates, cosines.

    It is our encoder and not a `SentenceTransformer` of the same files, so that the vectors are those of
    every other command, of a run or a checkpoint too. `messages` is the stream of the progress bars. Vectors
    are kept in `parts`, by block, and not computed again.
    """

    def __init__(self, encoder: Encoder, config: AnnotateConfig, messages: TextIO, parts: Path) -> None:
        (teacher,), mining = config.teachers, config.mining
        # Prompts that the model's files have for the two sides, in the order of sentence-transformers.
        named = {} if teacher.prompt is not None else encoder.backbone.declared.named
        self._query, self._corpus = (
            next((named[name] for name in names if name in named), teacher.prompt) if given is None else given
            for given, names in (
                (mining.query_prompt, ("query",)),
                (mining.corpus_prompt, ("document", "passage", "corpus")),
            )
        )
        self._encoder, self._batch_tokens, self._messages = encoder, config.batch_tokens, messages
        self._parts = parts
        self.device = encoder.backbone.device

    def encode_query(self, texts: list[str], **_: object) -> Tensor:
        """Unit vectors of anchors, ``(anchors, dim)``."""
        return self._encode(texts, self._query, "anchors")

    def encode_document(self, texts: list[str], **_: object) -> Tensor:
        """Unit vectors of candidates, ``(candidates, dim)``."""
        return self._encode(texts, self._corpus, "candidates")

    def similarity(self, anchors: Tensor, candidates: Tensor) -> Tensor:
        """Cosines of some anchors with all candidates, ``(some, candidates)``."""
        return anchors.to(self.device) @ candidates.to(self.device).T

    def similarity_pairwise(self, anchors: Tensor, positives: Tensor) -> Tensor:
        """Cosine of each pair, ``(pairs,)``."""
        return (anchors * positives).sum(1)

    def _encode(self, texts: list[str], prompt: str | None, what: str) -> Tensor:
        standing = self._encoder.prompt
        if prompt is not None:  # in place of the one that its files have for every text
            self._encoder.use(None)
        read = prompted(texts, prompt)
        with Progress(what, len(texts), "texts", self._messages) as bar:
            blocks = [self._block(read, start, bar) for start in range(0, len(read), BLOCK)]
        self._encoder.use(standing)
        vectors = np.concatenate(blocks)  # (texts, dim)
        check_finite(vectors, texts, 0)
        return torch.nn.functional.normalize(torch.from_numpy(vectors))

    def _block(self, texts: list[str], start: int, bar: Progress) -> np.ndarray:
        block = texts[start : start + BLOCK]
        # The encoder may put a prompt of its own before each text.
        path = self._parts / f"{digest_of([str(self._encoder.prompt), *block])[:24]}.npy"
        if not path.is_file():
            vectors = self._encoder.encode(
                block, batch_tokens=self._batch_tokens, progress=lambda done, _: bar.reach(start + done)
            )
            folder.write_array(path, vectors)
        return folder.read_array(path)


def mine(
    pairs: Sequence[Pair], encoder: Encoder, config: AnnotateConfig, parts: Path
) -> tuple[list[Plain], list[Pair]]:
    """Mine negatives of each anchor among the positives of all others.

    Gives rows of `anchor`, `positive`, `negative_1` ... and `scores`, and the pairs with too few negatives.

    Departures from `mine_hard_negatives`: an anchor that is also somebody's positive is never its own
    negative, and the rows are in the order of the pairs. Vectors are kept in the folder `parts`.
    """
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    mining = config.mining
    candidates = {positive for _, positive in pairs}
    # As its own positive, an anchor is no negative of itself; its cosine of 1 moves no margin.
    itself = [(anchor, anchor) for anchor, _ in pairs if anchor in candidates]
    anchors, positives = zip(*dict.fromkeys([*pairs, *itself]), strict=True)
    random.seed(mining.seed)  # what mine_hard_negatives draws by
    model = Model(encoder, config, sys.stderr, parts)
    with contextlib.redirect_stderr(io.StringIO()):  # its own bars, which cannot be switched off
        mined = mine_hard_negatives(
            Dataset.from_dict({"anchor": anchors, "positive": positives}),
            model,  # type: ignore[arg-type]  # what it calls is there
            anchor_column_name="anchor",
            positive_column_name="positive",
            output_format="n-tuple",
            output_scores=True,
            verbose=False,
            faiss_batch_size=max(1, min(16384, _COSINES_AT_ONCE // len(candidates))),
            **{name: value for name, value in asdict(mining).items() if name not in _OURS},
        ).to_list()
    by_pair = {(row["anchor"], row["positive"]): row for row in mined}
    rows = [by_pair[pair] for pair in pairs if pair in by_pair]
    rounded = [row | {"scores": [round(score, DECIMALS) for score in row["scores"]]} for row in rows]
    return rounded, [pair for pair in pairs if pair not in by_pair]


def run(config: AnnotateConfig, rows: Rows, teachers: Sequence[Plain], output: Path) -> Outcome:
    """Mine negatives into the folder `output`, whose provenance comes last.

    Vectors are kept in `parts/` until the negatives are.
    """
    pairs = positive_pairs(rows, config.mining.positive_from)
    if not pairs:
        raise DataError(
            f"{rows.name} {rows.split}: no row is a positive pair; those with a score of "
            "mining.positive_from or more, else entailments, are"
        )
    settings = _settings(config, rows, pairs, teachers)
    folder.check(output, settings, folder.ANNOTATE, kept="parts")
    if (output / folder.PROVENANCE).is_file():
        say(f"{output}: already complete, nothing to mine")
        return _report(output, config.teachers[0].name)
    (encoder,) = load(config.teachers, gpu.start(config.gpu).device)
    parts = output / "parts" / hashlib.sha256(to_json_line(teachers)).hexdigest()[:12]
    mined, left_out = mine(pairs, encoder, config, parts)
    if not mined:
        raise DataError(f"no pair has {config.mining.num_negatives} negatives; {_MORE}")
    folder.write(output / folder.ANNOTATE, settings)
    folder.list_skipped(rows, output)
    _write(output, settings, mined, left_out)
    shutil.rmtree(output / "parts")
    return _report(output, config.teachers[0].name)


_OURS = ("positive_from", "seed")  # options that mine_hard_negatives has not
_MORE = (
    "lower mining.num_negatives, range_min, absolute_margin, relative_margin or min_score, or raise "
    "range_max or max_score"
)


def _settings(config: AnnotateConfig, rows: Rows, pairs: Sequence[Pair], teachers: Sequence[Plain]) -> Plain:
    """What decides the negatives: no machine, no batch."""
    left, right = map(list, zip(*pairs, strict=True))
    texts = Rows(name=rows.name, split=rows.split, form="pair", texts={"left": left, "right": right})
    facts = {"name": rows.name, "split": rows.split, "count": len(pairs), "sha256": texts.fingerprint()}
    return {
        "schema": 1,
        "mode": "mine",
        "pairs": facts,
        "teachers": list(teachers),
        "mining": asdict(config.mining),
        "sentence_transformers": version("sentence-transformers"),
    }


def _write(output: Path, settings: Plain, mined: Sequence[Plain], left_out: Sequence[Pair]) -> None:
    publish(output / TRIPLETS, packed(to_json_lines(mined)), replace=True)
    if left_out:
        lines = ({"anchor": anchor, "positive": positive} for anchor, positive in left_out)
        publish(output / LEFT_OUT, to_json_lines(lines), replace=True)
    names = [name for name in mined[0] if name not in ("anchor", "scores")]
    scores = np.array([row["scores"] for row in mined])  # (rows, 1 + negatives)
    provenance = {
        **settings,
        "left_out": len(left_out),
        "mean_cosine": dict(zip(names, scores.mean(axis=0).tolist(), strict=True)),
        "file": {"path": TRIPLETS, "rows": len(mined), "sha256": sha256(output / TRIPLETS)},
    }
    folder.write(output / folder.PROVENANCE, provenance)


def _report(output: Path, teacher: str) -> Outcome:
    provenance = folder.read(output / folder.PROVENANCE)
    means, rows = provenance["mean_cosine"], f"{provenance['file']['rows']:,}"
    if left_out := provenance["left_out"]:
        say(f"warning: {left_out:,} pairs have too few negatives and are in {output / LEFT_OUT}; {_MORE}")
    table = [["", "rows", "mean cosine"], *([name, rows, f"{mean:.4f}"] for name, mean in means.items())]
    columns = ", ".join(f"{name}: {name}" for name in ("anchor", *means))
    names = f"dataset.columns={{{columns}}}"
    options = shlex.join([f"dataset.path={output / TRIPLETS}", names, f"backbone.name={teacher}"])
    print(
        f"{aligned(table, right=(1, 2))}\n\n"
        f"train on it: embedrun train dataset=triplets {clean(options)} loss=simcse_supervised\n\n"
        f"{clean(str(output))}"
    )
    return Outcome(str(output))
