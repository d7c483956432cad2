from concurrent.futures import ThreadPoolExecutor

import numpy as np

from embedrun.evaluation.classifier.examples import Permutations


def test_rounds_go_on_where_the_last_one_ended_whatever_they_are_asked_for():
    generator = np.random.RandomState(7)
    wanted = [generator.permutation(9) for _ in range(6)]
    permutations = Permutations(7, epochs=2)
    np.testing.assert_array_equal(permutations.round(2, 9, drawn=0), wanted[4:6])
    np.testing.assert_array_equal(permutations.round(0, 9, drawn=0), wanted[:2])


def test_the_permutation_before_training_comes_from_the_same_generator():
    generator = np.random.RandomState(7)
    first, wanted = generator.permutation(10), generator.permutation(9)
    permutations = Permutations(7, epochs=1)
    np.testing.assert_array_equal(permutations.first(10), first)
    np.testing.assert_array_equal(permutations.round(0, 9, drawn=10)[0], wanted)
    assert not np.array_equal(permutations.round(0, 9, drawn=0)[0], wanted)


def test_threads_get_the_same_orders():
    permutations = Permutations(3, epochs=4)
    asked = [(index % 5, 30 + index % 3) for index in range(60)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: permutations.round(*one, drawn=0), asked))
    alone = Permutations(3, epochs=4)
    for one, orders in zip(asked, found, strict=True):
        np.testing.assert_array_equal(orders, alone.round(*one, drawn=0))


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()
    Permutations(3, epochs=4).round(1, 10, drawn=20)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
