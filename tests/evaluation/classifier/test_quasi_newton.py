"""Many convex functions are minimised at once, each as if alone."""

import torch

from embedrun.evaluation.classifier.convex import minimise


def identity(slope, active):
    return slope


def test_a_parabola_with_its_own_curvature_needs_one_step_and_no_gradient_but_the_first():
    # 2 (x - 3)^2 from 0: the gradient is -12, the second derivative 4.
    calls = []

    def gradient(x, active):
        calls.append(x.clone())
        return 4 * (x - 3)

    found = minimise(
        gradient,
        lambda slope, active: slope / 4,
        torch.zeros(1, 1),
        torch.tensor([[-12.0]]),
        flat=1e-6,
        short=1e-6,
    )
    torch.testing.assert_close(found, torch.tensor([[3.0]]))
    assert [float(x) for x in calls] == [3.0]


def test_a_step_that_goes_much_too_far_is_cut_until_it_does_not():
    # sqrt(1 + x^2): Newton's own steps from |x| > 1 fly apart, here they are ten times too long besides.
    largest = []

    def gradient(x, active):
        largest.append(float(x.abs().max()))
        return x / (1 + x**2).sqrt()

    start = torch.tensor([[3.0], [-0.5]])
    found = minimise(
        gradient,
        lambda slope, active: 300 * slope,
        start,
        start / (1 + start**2).sqrt(),
        flat=1e-6,
        short=1e-3,
    )
    assert found.abs().max() < 1e-4
    assert largest[0] > 100
    assert len(largest) < 30


def test_a_function_is_solved_the_same_beside_others_as_alone():
    generator = torch.Generator().manual_seed(1)
    root = torch.randn(3, 4, 4, generator=generator)
    curvature = root @ root.mT + torch.eye(4)  # (functions, size, size)
    centre = torch.randn(3, 4, generator=generator)

    def solved(some):
        def gradient(x, active):
            return ((x - centre[some][active])[:, None] @ curvature[some][active])[:, 0]

        start = torch.zeros(len(some), 4)
        first = gradient(start, torch.arange(len(some)))
        return minimise(gradient, identity, start, first, flat=1e-6, short=1e-6)

    together = solved([0, 1, 2])
    torch.testing.assert_close(together, centre, atol=1e-4, rtol=0)
    for one in range(3):
        torch.testing.assert_close(solved([one])[0], together[one], atol=1e-4, rtol=0)


def test_a_function_without_a_minimum_ends_after_the_given_steps():
    def gradient(x, active):
        return -torch.exp(-x)

    found = minimise(gradient, identity, torch.zeros(1, 1), -torch.ones(1, 1), flat=0, short=0, steps=5)
    assert torch.isfinite(found).all()
    assert float(found) > 1
