import numpy as np
import pytest
import torch

from embedrun.evaluation.classifier.adam import Course, initial


def course(held_out: int, counts: list[int]) -> tuple[Course, int]:
    """A course that has seen some numbers of correct rows, until it stopped, and how many these are."""
    made = Course(held_out)
    for seen, correct in enumerate(counts, start=1):
        made.see(correct, np.full((2, 3), float(seen)))
        if not made.goes_on:
            return made, seen
    return made, len(counts)


@pytest.mark.parametrize(("seed", "dim", "classes"), [(1111, 384, 2), (2, 7, 6)])
def test_classifiers_start_as_a_linear_layer_after_manual_seed(seed: int, dim: int, classes: int):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layer = torch.nn.Linear(dim, classes)
    state = torch.get_rng_state()
    weights = initial(seed, dim, classes)
    torch.testing.assert_close(torch.from_numpy(weights[:, :-1]), layer.weight.detach(), rtol=0, atol=0)
    torch.testing.assert_close(torch.from_numpy(weights[:, -1]), layer.bias.detach(), rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_sixth_round_that_is_no_better_stops_it():
    made, seen = course(10, [5] + [4] * 9)
    assert seen == 7
    assert made.end().rounds == 7


def test_a_better_round_does_not_set_the_count_back():
    _, seen = course(10, [1, 1, 1, 1, 1, 1, 2, 3, 3, 4])  # five no better, two better, the sixth no better
    assert seen == 9


def test_the_first_of_equally_good_weights_is_kept():
    made, _ = course(10, [3, 6, 6, 5])
    fitted = made.end()
    assert fitted.accuracy == 0.6
    assert fitted.weights[0, 0] == 2


def test_no_round_begins_after_200_epochs():
    _, seen = course(100, list(range(100)))
    assert seen == 51
