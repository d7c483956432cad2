"""An untrained model has the scores of an earlier run only where everything that decides them is equal."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedrun.config import BackboneConfig, PoolingConfig
from embedrun.config.options import ScratchConfig
from embedrun.encoder import Encoder
from embedrun.evaluation.heldout import Heldout
from embedrun.evaluation.scores import Scores
from embedrun.experiment.baseline import key, scored
from embedrun.experiment.scoring import Kept, Scorer
from embedrun.files import Plain
from embedrun.prompts import Prompt
from embedrun.rows import Rows

pytestmark = pytest.mark.usefixtures("_alone")

TEXTS = ["a dog runs", "a cat sleeps", "it rains", "the sun shines"]
OPTIONS = {"heldout": {"split": "test"}}


def encoder(pooling: str = "mean", *, seed: int = 1, texts: list[str] = TEXTS, **options: Any) -> Encoder:
    scratch = ScratchConfig(layers=1, width=8, heads=2, vocabulary=100, positions=32)
    made = BackboneConfig(name=None, scratch=scratch)
    return Encoder.build(made, PoolingConfig(name=pooling, **options), seed=seed, vocabulary_texts=texts)


def rows(texts: list[str] = TEXTS, scores: tuple[float, ...] = (1, 2, 3, 4)) -> Rows:
    columns = {"left": texts, "right": texts[::-1]}
    return Rows("toy", "test", "pair", columns, targets={"score": np.array(scores, float)})


def scorer(**changed: Any) -> Scorer:
    whole = Scorer({"heldout": Heldout()}, {"heldout": {"heldout": rows()}}, 4096)
    return replace(whole, **changed)


def changed(change: Callable[[Encoder], object]) -> Encoder:
    made = encoder()
    change(made)
    return made


@torch.no_grad()
def nudge(made: Encoder) -> None:
    weight = next(made.backbone.model.parameters()).reshape(-1)
    weight[0] = torch.nextafter(weight[0], torch.tensor(9.0))


def base() -> Plain | None:
    return key(scorer(), encoder(), OPTIONS)


def test_the_same_model_and_rows_made_again_are_the_same():
    assert base() is not None
    assert base() == base()


MODELS = {
    "one bit of a weight": lambda: changed(nudge),
    "the seed of a model from scratch": lambda: encoder(seed=2),
    "the words of its vocabulary": lambda: encoder(texts=[*TEXTS, "snow falls"]),
    "pooling": lambda: encoder("max"),
    "normalisation": lambda: encoder(normalize=True),
    "the prompt": lambda: changed(lambda made: made.use(Prompt("query: {text}"))),
    "the edit of a text": lambda: changed(lambda made: made.use(Prompt("{text}", "angle_llm"))),
    "the scoring length": lambda: changed(lambda made: made.score_at(8)),
    "lower case": lambda: changed(
        lambda made: setattr(made.backbone, "declared", replace(made.backbone.declared, lowercase=True))
    ),
    "a constant of the architecture": lambda: changed(
        lambda made: setattr(made.backbone.model.config, "layer_norm_eps", 0.1)
    ),
    "attention": lambda: changed(lambda made: setattr(made.backbone, "attention", "eager")),
}


@pytest.mark.parametrize("what", MODELS)
def test_of_another_model_nothing_is_taken(what):
    assert key(scorer(), MODELS[what](), OPTIONS) != base()


class Other(Heldout):
    pass


EVALUATIONS = {
    "precision": {"precision": "bf16"},
    "tokens of a pass": {"batch_tokens": 2048},
    "a gold score": {"rows": {"heldout": {"heldout": rows(scores=(1, 2, 3, 5))}}},
    "a text": {"rows": {"heldout": {"heldout": rows(["a dog ran", *TEXTS[1:]])}}},
    "rows left out": {"clean": {"heldout": {"heldout": np.array([True, True, True, False])}}},
    "the class of a task": {"tasks": {"heldout": Other()}},
}


@pytest.mark.parametrize("what", EVALUATIONS)
def test_of_another_evaluation_nothing_is_taken(what):
    assert key(scorer(**EVALUATIONS[what]), encoder(), OPTIONS) != base()


def test_another_number_of_threads_rounds_in_another_way():
    before, threads = base(), torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert base() != before
    finally:
        torch.set_num_threads(threads)


def run(made: Encoder, folder: Path, which: Scorer) -> dict[str, Scores]:
    return scored(which, made, OPTIONS, kept=Kept(folder, "untrained-test"), model="tiny")


def test_predictions_that_are_not_finite_are_left_out_and_do_not_end_the_run(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    broken = encoder()
    with torch.no_grad():
        next(broken.parameters()).fill_(math.nan)
    for made, files in ((encoder(), ["toy_test"]), (broken, [])):
        kept = Kept(tmp_path / str(len(files)), "untrained-dev")
        found = scored(scorer(), made, OPTIONS, kept=kept, model="tiny", predictions=True)
        assert list(found["heldout"].predictions) == files


def test_the_second_run_scores_nothing_and_has_the_same_numbers(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = run(encoder(), tmp_path / "a", scorer())
    assert "earlier run" not in capsys.readouterr().err

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Scorer, "score", never)
    second = run(encoder(), tmp_path / "b", scorer())
    said = capsys.readouterr().err
    assert "the scores of tiny before training (heldout) are those of an earlier run" in said
    assert {name: (one.scores, one.main) for name, one in second.items()} == {
        name: (one.scores, one.main) for name, one in first.items()
    }
    assert not (tmp_path / "b").exists()
    with pytest.raises(AssertionError):
        run(encoder(seed=2), tmp_path / "c", scorer())


def test_an_undefined_score_stays_undefined(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    flat = scorer(rows={"heldout": {"heldout": rows(scores=(1, 1, 1, 1))}})
    for name in "ab":
        (found,) = run(encoder(), tmp_path / name, flat).values()
        assert math.isnan(found.scores["toy_test/spearman"])


def test_untrained_cosines_that_are_mostly_rounding_are_warned_of_also_from_the_cache(
    monkeypatch, tmp_path, capsys
):
    constant_cls = encoder("cls")
    for name, weight in constant_cls.backbone.model.named_parameters():
        weight.data *= "attention.output.dense" not in name  # no word reaches the first token

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in "ab":
        run(constant_cls, tmp_path / name, scorer())
        said = capsys.readouterr().err
        assert "warning: the untrained cosines are as good as constant (toy_test, standard deviation" in said
    run(encoder(), tmp_path / "c", scorer())
    assert "constant" not in capsys.readouterr().err
