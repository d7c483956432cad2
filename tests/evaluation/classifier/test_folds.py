import numpy as np
import pytest

from embedrun.evaluation.classifier.examples import stratified


def test_every_fold_holds_out_its_share_of_each_class():
    labels = np.array([1] * 6 + [0] * 4)
    held_out = [labels[out] for _, out in stratified(labels, 2, seed=0)]
    assert [sorted(classes.tolist()) for classes in held_out] == [[0, 0, 1, 1, 1]] * 2


def test_rows_are_trained_on_or_held_out_and_held_out_once():
    labels = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 1])
    folds = stratified(labels, 3, seed=5)
    assert sorted(np.concatenate([out for _, out in folds]).tolist()) == list(range(11))
    for train, out in folds:
        assert sorted([*train.tolist(), *out.tolist()]) == list(range(11))


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("seed", range(12))
def test_the_folds_are_those_of_scikit_learn(seed: int):
    from sklearn.model_selection import StratifiedKFold

    random = np.random.default_rng(seed)
    count = 2 + seed % 9
    labels = np.concatenate([np.full(count, 3), random.integers(0, 5, 97)])
    random.shuffle(labels)
    reference = StratifiedKFold(count, shuffle=True, random_state=seed).split(labels, labels)
    for (train, out), (wanted, wanted_out) in zip(stratified(labels, count, seed), reference, strict=True):
        np.testing.assert_array_equal(train, wanted)
        np.testing.assert_array_equal(out, wanted_out)


@pytest.mark.parametrize(("labels", "folds"), [([0, 0, 1, 1], 3), ([0, 0, 1, 1], 1)])
def test_what_cannot_be_folded_is_refused(labels: list[int], folds: int):
    with pytest.raises(ValueError, match=f"{folds} folds need"):
        stratified(np.array(labels), folds, seed=0)
