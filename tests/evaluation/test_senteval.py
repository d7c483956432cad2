import math
import os

import numpy as np
import pytest
import torch
from minilm import minilm_folder
from torch import Tensor

from embedrun.evaluation import classifier, senteval
from embedrun.evaluation.classifier import Examples, Fit, Method, Outcome, examples, stratified, validate
from embedrun.evaluation.classifier.adam import Adam
from embedrun.evaluation.senteval import TASKS, Senteval, TaskName, f1
from embedrun.rows import Rows


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([[float(len(text)), 1.0] for text in texts])


def rows(task: str, split: str = "train") -> Rows:
    """Four texts or pairs whose number of words falls."""
    texts = ["a b c d", "a b c", "a b", "a"]
    sides = {"left": texts, "right": ["x"] * 4} if task == "mrpc" else {"text": texts}
    form = "pair" if task == "mrpc" else "text"
    return Rows(task, split, form, sides, {"category": np.array([1, 0, 1, 1])})


def given(task: Senteval) -> dict[str, Rows]:
    return {key: rows(key.split("_")[0], one.split) for key, one in task.sources().items()}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    """Classifiers that say class 1, and are the better the higher the seed; what they were asked."""
    asked: list[tuple[int, int | None]] = []

    def outcome(method: Method, splits: list[Examples], progress) -> Outcome:
        seed = method.seed if isinstance(method, Adam) else None
        asked.append((len(splits), seed))
        progress(1, 2)
        progress(2, 2)
        share = 0 if seed is None else seed % 100
        predicted = np.ones(len(splits[-1].labels), dtype=np.int64)
        return Outcome(80.0 + share, 70.0 + share, predicted, [1e-5])

    monkeypatch.setattr(senteval, "validate", outcome)
    return asked


def test_a_task_is_solved_by_the_protocol_of_its_splits(told: list):
    Senteval(tasks=["mr", "trec", "sst2"]).score(given(Senteval()), encode)
    assert told == [(1, 1111), (2, 1111), (3, 1111)]
    Senteval(tasks=["trec"], protocol="fast").score(given(Senteval()), encode)
    assert told[-1] == (2, None)


@pytest.mark.usefixtures("told")
def test_test_and_dev_scores_have_different_keys_that_say_the_protocol():
    found = Senteval(tasks=["mr"], seeds=[1]).score(given(Senteval()), encode)
    assert found.scores == {"senteval/mr/accuracy_paper": 71.0, "senteval_dev/mr/accuracy_paper": 81.0}
    assert found.main == "senteval/mr/accuracy_paper"
    assert found.shown == ("senteval/mr/accuracy_paper",)
    fast = Senteval(tasks=["mr"], protocol="fast").score(given(Senteval()), encode)
    assert fast.scores == {"senteval/mr/accuracy_fast": 70.0, "senteval_dev/mr/accuracy_fast": 80.0}


@pytest.mark.usefixtures("told")
def test_several_seeds_give_mean_deviation_and_each():
    found = Senteval(tasks=["mr"], seeds=[1, 2, 6]).score(given(Senteval()), encode)
    assert found.scores == {
        "senteval/mr/accuracy_paper": pytest.approx(73.0),
        "senteval/mr/accuracy_paper_std": pytest.approx(math.sqrt((4 + 1 + 9) / 2)),
        "senteval/mr/accuracy_paper_seed1": 71.0,
        "senteval/mr/accuracy_paper_seed2": 72.0,
        "senteval/mr/accuracy_paper_seed6": 76.0,
        "senteval_dev/mr/accuracy_paper": pytest.approx(83.0),
    }
    assert found.shown == ("senteval/mr/accuracy_paper", "senteval/mr/accuracy_paper_std")


@pytest.mark.usefixtures("told")
def test_the_average_is_there_for_all_seven_tasks_only():
    seeds = [1, 3]
    found = Senteval(seeds=seeds).score(given(Senteval()), encode)
    average = {key: value for key, value in found.scores.items() if key.startswith("senteval/avg/")}
    assert average == {
        "senteval/avg/accuracy_paper": pytest.approx(72.0),
        "senteval/avg/accuracy_paper_std": pytest.approx(math.sqrt(2)),
        "senteval/avg/accuracy_paper_seed1": 71.0,
        "senteval/avg/accuracy_paper_seed3": 73.0,
    }
    assert found.main == "senteval/avg/accuracy_paper"
    fewer = Senteval(tasks=list(TASKS[1:]), seeds=seeds).score(given(Senteval()), encode)
    assert not any("/avg/" in key for key in fewer.scores)
    assert fewer.main == "senteval/cr/accuracy_paper"


@pytest.mark.usefixtures("told")
def test_the_average_has_an_interval_for_one_seed():
    key = "senteval/avg/accuracy_paper"
    low, high = Senteval().score(given(Senteval()), encode).intervals[key]
    assert 50 < low < 75 < high < 100  # seven times four rows, three of four right
    assert key not in Senteval(seeds=[1, 2]).score(given(Senteval()), encode).intervals


@pytest.mark.usefixtures("told")
def test_mrpc_has_the_f1_of_paraphrases():
    found = Senteval(tasks=["mrpc"]).score(given(Senteval()), encode)
    assert found.scores["senteval/mrpc/f1_paper"] == pytest.approx(85.71)  # precision 3/4, recall 1
    assert "senteval/mrpc/f1_paper" in found.shown


def test_f1_by_hand():
    gold, predicted = np.array([1, 1, 1, 0, 0]), np.array([1, 0, 0, 1, 0])
    assert f1(gold, predicted) == 40.0  # 2 × 1 / (3 + 2)
    assert f1(gold, np.zeros(5)) == 0.0


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_of_vectors_that_are_not_finite_are_undefined(value: float):
    def broken(texts: list[str]) -> Tensor:
        return encode(texts).where(torch.tensor([[len(text) > 1] for text in texts]), torch.tensor(value))

    found = Senteval(tasks=["mr", "mrpc"]).score(given(Senteval()), broken)
    assert list(found.scores) == [
        "senteval/mr/accuracy_paper",
        "senteval_dev/mr/accuracy_paper",
        "senteval/mrpc/accuracy_paper",
        "senteval/mrpc/f1_paper",
        "senteval_dev/mrpc/accuracy_paper",
    ]
    assert all(math.isnan(score) for score in found.scores.values())
    assert found.predictions == {}


@pytest.fixture(scope="module")
def compiled():
    """Compiling takes seconds, which are no test's own."""
    train = Adam(1).trainer(np.eye(2, dtype=np.float32), np.arange(2))
    train([Fit(np.arange(2), np.arange(2), (0.1,))], lambda newly: None)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("protocol", ["paper", "fast"])
def test_real_classifiers_separate_what_can_be_separated(protocol, monkeypatch):
    monkeypatch.setattr(classifier, "FOLDS", 3)
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 60)
    texts = [f"{'good' if label else 'bad'} {index}" for index, label in enumerate(labels)]

    def by_word(given: list[str]) -> Tensor:
        return torch.tensor([[4.0 * text.startswith("good"), 1.0] for text in given])

    task = Senteval(tasks=["cr"], protocol=protocol)
    state = torch.get_rng_state()
    found = task.score({"cr": Rows("cr", "train", "text", {"text": texts}, {"category": labels})}, by_word)
    assert found.scores[f"senteval/cr/accuracy_{protocol}"] == 100.0
    name = "senteval_cr" if protocol == "paper" else "senteval_fast_cr"
    assert found.predictions[name]["predicted"] == labels.tolist()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.fixture(scope="module")
def mean_pooled():
    """MiniLM's mean of the token vectors, not scaled to unit length."""
    from embedrun.encoder import Encoder

    encoder = Encoder.load(minilm_folder())
    encoder.normalize = False
    return lambda texts: torch.from_numpy(encoder.encode(texts))


def read(task: TaskName) -> dict[str, Rows]:
    from embedrun.dataset.published import Senteval as Data
    from embedrun.store import Store

    store = Store.find(os.environ["EMBEDRUN_DATA"])
    sources = Senteval(tasks=[task]).sources()
    return {key: Data(task=task).read(source.split, store) for key, source in sources.items()}


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize(("task", "accuracy"), [("trec", 89.80), ("mrpc", 72.35)])
def test_accuracies_are_those_of_the_original_classifier(mean_pooled, task: TaskName, accuracy: float):
    own = read(task)
    found = Senteval(tasks=[task]).score(own, mean_pooled)
    example = 100 / len(own[f"{task}_test"])
    assert abs(found.scores[f"senteval/{task}/accuracy_paper"] - accuracy) <= max(0.1, example) + 1e-9


@pytest.mark.slow
@pytest.mark.realdata
def test_the_first_two_outer_folds_are_those_of_the_original_classifier(mean_pooled):
    rows = examples(read("cr")["cr"], mean_pooled)
    predicted = validate(Adam(1111), [rows]).predicted
    folds = [held_out for _, held_out in stratified(rows.labels, 10, 1111)[:2]]
    accuracies = [100 * np.mean(predicted[fold] == rows.labels[fold]) for fold in folds]
    assert np.mean(accuracies) == pytest.approx(81.09, abs=100 / len(folds[0]))
