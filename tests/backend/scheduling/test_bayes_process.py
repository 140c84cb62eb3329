"""The model of bayes: improvement and gradient against independent ones, and the proposals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from deployer.backend.scheduling.bayes import (
    LONGEST_TAIL,
    Array,
    Dimension,
    _fit,
    _standardise,
    log_improvement,
    propose,
)

pytestmark = pytest.mark.slow

NONE = np.zeros((0, 1))


@pytest.mark.parametrize("z", [3.0, 0.5, -0.99, -1.01, -5.0, -12.0])
def test_the_improvement_is_its_integral(z: float) -> None:
    """Of the part of N(0, 1) below z, whose improvement is the distance from z."""
    found = log_improvement(np.zeros(1), np.ones(1), z)[0]
    integral = integrate.quad(lambda x: x * stats.norm.pdf(x - z), 0, 40, epsabs=0)[0]
    assert found == pytest.approx(np.log(integral), rel=1e-6)


def test_the_improvement_goes_on_falling_where_it_is_nothing() -> None:
    found = log_improvement(np.array([10.0, 900.0, 1100.0, 1e6]), np.ones(4), 0.0)
    assert np.isfinite(found).all()
    assert (np.diff(found) < 0).all()


def test_the_gradient_of_the_fit_is_that_of_differences() -> None:
    axes = (Dimension(), Dimension(3, choice=True), Dimension(5))
    generator = np.random.default_rng(0)
    columns, values = generator.random((12, 5)), generator.normal(size=12)
    model = _fit(axes, columns, values)

    def at(theta: Array) -> float:
        return float(model.log_marginal_likelihood(theta))

    def slope(theta: Array) -> Array:
        gradient: Array = model.log_marginal_likelihood(theta, eval_gradient=True)[1]
        return gradient

    theta = np.log([2.0, 0.3, 0.7, 1.5, 0.01])  # variance, a length for each axis, noise
    assert len(model.kernel_.theta) == len(theta)
    assert optimize.check_grad(at, slope, theta) < 1e-4


def test_a_diverged_run_does_not_make_the_others_alike() -> None:
    values = np.array([0.1, 0.2, 0.3, 0.4, 1e30])
    standard = _standardise(values)
    assert np.argsort(standard).tolist() == [0, 1, 2, 3, 4]
    assert standard[3] - standard[0] > (standard[4] - standard[3]) / (LONGEST_TAIL + 1)
    assert not _standardise(np.ones(3)).any()


def test_the_bottom_of_a_valley_is_found_to_a_thousandth() -> None:
    points = np.linspace(0, 1, 12)[:, None]
    for bottom in (0.0, 0.2345, 1.0):
        found = propose([Dimension()], points, (points[:, 0] - bottom) ** 2, NONE, [0])
        assert abs(found[0] - bottom) < 0.01


def test_steps_are_proposed_in_their_middle_and_pending_ones_left_to_others() -> None:
    axes = [Dimension(4), Dimension(3, choice=True)]
    points = np.array([[0.125, 1 / 6], [0.375, 0.5], [0.625, 5 / 6], [0.875, 1 / 6]])
    values = np.array([3.0, 2.0, 1.0, 0.5])
    first = propose(axes, points, values, np.zeros((0, 2)), [1])
    second = propose(axes, points, values, first[None], [1])
    for found in (first, second):
        assert found[0] in (0.125, 0.375, 0.625, 0.875)
        assert min(abs(found[1] - middle) for middle in (1 / 6, 0.5, 5 / 6)) < 1e-12
    assert first.tolist() != second.tolist()
