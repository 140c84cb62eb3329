"""Bayesian search: runs are points of a unit cube; a Gaussian process proposes the next one.

A choice is an axis of unordered steps, an integer an axis of ordered steps. Other numbers are
u in [0, 1], mapped by their quantile function like in W&B's engine.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from deployer.backend.scheduling.search import SearchRun
from deployer.sweeps.space import Categorical, Constant, Integer, Parameter, Space

# scikit-learn fits the process (Matérn 5/2, one length scale for each parameter, noise). Its
# hyperparameters have the priors of Optuna's `GPSampler`: with few runs, maximum likelihood alone
# explains differences as noise. Pending points have the values that the model predicts for them
# (kriging believer: Ginsbourger, Le Riche and Carraro 2010). The acquisition function is the log of
# the expected improvement (Ament et al. 2023), which is nearly 0 almost everywhere once a good
# point is known.

Array = NDArray[np.float64]

# Bounds of the kernel's variance, length scales and noise. Variance and noise are in squared
# standard deviations of the values, lengths in widths of the cube.
VARIANCES, LENGTHS, NOISES = (0.05, 100.0), (0.05, 20.0), (1e-6, 1.0)
# Clip bad values at this distance above the third quartile, in multiples of the range of the better
# three quarters, so that a diverged run does not make all others look alike.
LONGEST_TAIL = 3.0
# The search for the best point: the number of random points, of the best ones to refine, and of
# points around each of these; the standard deviations of their distances, one for each round.
DRAWN, REFINED, AROUND = 2048, 8, 64
WIDTHS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 3e-4, 1e-4)
REDRAWN = 0.3  # fraction of choices that a neighbor redraws
SMALLEST_VARIANCE = 1e-12
# The most ended runs in a model. The cost is cubic: with 10 parameters, 200 runs take 0.6 s of a
# core, 400 take 3 s.
LARGEST_MODEL = 200
# Integers with more values are searched as continuous numbers.
MOST_STEPS = 1000
# The model squares values: larger ones would overflow a double.
LARGEST_VALUE = 1e100


@dataclass(frozen=True)
class Dimension:
    """One coordinate of the cube, with `steps` of equal width; 0 if continuous.

    The steps of a `choice` are unordered: all have the same distance.
    """

    steps: int = 0
    choice: bool = False

    @property
    def width(self) -> int:
        return self.steps if self.choice else 1


def propose(
    axes: Sequence[Dimension], points: Array, values: Array, pending: Array, seed: Sequence[int]
) -> Array:
    """Return the point with the highest expected improvement, as coordinates in [0, 1].

    `points` (n, axes) have `values` (n; the smallest is the best), `pending` ones (m, axes) have
    none yet. Deterministic.
    """
    cube, drawn = _Cube(axes), np.random.default_rng(seed)
    columns, standard = cube.columns(points), _standardise(values)
    model = _fit(axes, columns, standard)
    if len(pending):
        points = np.vstack([points, pending])
        believed = model.predict(cube.columns(pending))
        columns, standard = cube.columns(points), np.concatenate([standard, believed])
        model = GaussianProcessRegressor(model.kernel_, optimizer=None).fit(columns, standard)
    noise, least = model.kernel_.k2.noise_level, model.predict(columns).min()

    def score(candidates: Array) -> Array:
        mean, deviation = model.predict(cube.columns(candidates), return_std=True)
        variance = np.maximum(deviation**2 - noise, SMALLEST_VARIANCE)
        return log_improvement(mean, np.sqrt(variance), least)

    best = points[np.argsort(standard)[:REFINED]]
    start = cube.snap(np.vstack([drawn.random((DRAWN, len(axes))), best]))
    scores = score(start)
    kept = np.concatenate([np.argsort(-scores)[:REFINED], range(DRAWN, len(start))])
    refined, scores = start[kept], scores[kept]
    for width in WIDTHS:
        around = cube.scatter(refined, width, drawn)
        found = score(around.reshape(-1, len(axes))).reshape(around.shape[:2])
        place = (np.arange(len(refined)), found.argmax(axis=1))
        better = found[place] > scores
        refined = np.where(better[:, None], around[place], refined)
        scores = np.where(better, found[place], scores)
    chosen: Array = refined[scores.argmax()]
    return chosen


def log_improvement(mean: Array, deviation: Array, least: float) -> Array:
    """Return the logarithm of the expected improvement over `least`, precise for tiny values."""
    z = (least - mean) / deviation
    density = -(z**2) / 2 - math.log(math.sqrt(2 * math.pi))
    with np.errstate(all="ignore"):  # each formula overflows where another one is used
        near = np.log(np.exp(density) + z * ndtr(z))
        far = density + np.log1p(z * math.sqrt(math.pi / 2) * erfcx(-z / math.sqrt(2)))
        farthest = density - 2 * np.log(-z)
    result: Array = np.where(z > -1, near, np.where(z > -1e3, far, farthest)) + np.log(deviation)
    return result


class _Cube:
    """Points of the unit cube, and their columns in the model."""

    def __init__(self, axes: Sequence[Dimension]) -> None:
        self.axes = axes
        self.choices = np.array([axis.choice for axis in axes])

    def snap(self, points: Array) -> Array:
        snapped = points.copy()
        for place, axis in enumerate(self.axes):
            if axis.steps:
                snapped[:, place] = (self._step(points, place) + 0.5) / axis.steps
        return snapped

    def columns(self, points: Array) -> Array:
        """Return one column for an ordered axis, one for each step of a choice."""
        return np.hstack(
            [
                np.eye(axis.steps)[self._step(points, place)]
                if axis.choice
                else points[:, place, None]
                for place, axis in enumerate(self.axes)
            ]
        )

    def scatter(self, points: Array, width: float, drawn: np.random.Generator) -> Array:
        """Return points around each of n points: (n, AROUND, axes); some axes are unchanged."""
        shape = (len(points), AROUND, len(self.axes))
        moved = drawn.random(shape) < max(0.5, 2 / len(self.axes))
        near = points[:, None] + drawn.normal(scale=width, size=shape) * moved
        redrawn = drawn.random(shape) < REDRAWN
        chosen = np.where(redrawn, drawn.random(shape), points[:, None])
        around = np.where(self.choices, chosen, near).clip(0, 1)
        return self.snap(around.reshape(-1, shape[2])).reshape(shape)

    def _step(self, points: Array, place: int) -> NDArray[np.int64]:
        steps = self.axes[place].steps
        return np.minimum((points[:, place] * steps).astype(np.int64), steps - 1)


def _standardise(values: Array) -> Array:
    worst_quarter = np.quantile(values, 0.75)
    cut = np.minimum(values, worst_quarter + LONGEST_TAIL * (worst_quarter - values.min()))
    standard: Array = (cut - cut.mean()) / (cut.std() or 1.0)
    return standard


def _fit(axes: Sequence[Dimension], columns: Array, values: Array) -> GaussianProcessRegressor:
    scale = _GroupedMatern([axis.width for axis in axes], [0.5] * len(axes), LENGTHS)
    kernel = ConstantKernel(1.0, VARIANCES) * scale + WhiteKernel(1e-4, NOISES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a result at a bound is valid
        return _ProcessWithPriors(kernel).fit(columns, values)


class _GroupedMatern(Matern):  # type: ignore[misc]
    """Matérn 5/2 with one length scale for each group of columns."""

    def __init__(
        self,
        widths: Sequence[int],
        length_scale: Sequence[float],
        length_scale_bounds: tuple[float, float],
    ) -> None:
        super().__init__(length_scale, length_scale_bounds, nu=2.5)
        self.widths = widths

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        plain = Matern(np.repeat(self.length_scale, self.widths), nu=2.5)
        if not eval_gradient:
            return plain(X, Y)
        covariance, gradient = plain(X, Y, eval_gradient=True)
        starts = np.cumsum([0, *self.widths[:-1]])
        return covariance, np.add.reduceat(gradient.reshape(len(X), len(X), -1), starts, axis=2)


class _ProcessWithPriors(GaussianProcessRegressor):  # type: ignore[misc]
    """Maximizes the posterior density of the hyperparameters instead of the likelihood."""

    def log_marginal_likelihood(
        self, theta: Array | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        found = super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)
        if theta is None:
            return found
        parameters = np.exp(theta)
        variance, lengths, noise = parameters[0], parameters[1:-1], parameters[-1]
        prior = math.log(variance) - variance
        prior -= 0.1 * (lengths**2 + lengths**-2).sum()
        prior += 0.1 * math.log(noise) - 30 * noise
        if not eval_gradient:
            return found + prior
        by_length = -0.2 * (lengths**2 - lengths**-2)
        return found[0] + prior, found[1] + np.array([1 - variance, *by_length, 0.1 - 30 * noise])


log = logging.getLogger(__name__)


def suggest_bayes(
    space: Space,
    goal: str,
    seed: str,
    runs: Sequence[SearchRun],
    index: int,
    impute: str = "worst",
) -> dict[str, Any]:
    """Return the configuration with the highest expected improvement, as plain values.

    Runs that have not ended count as pending. Skips a run that does not fit the space, and logs a
    warning. Deterministic.
    """
    searched = [parameter for parameter in space.parameters if not isinstance(parameter, Constant)]
    known = list(_place(searched, modelled(runs, outcomes(runs, goal, impute))))
    ended = [one for one in known if one.run.ended]
    generator = random.Random(f"{seed}:{index}")
    us = [generator.random() for _ in searched]
    if searched and ended:
        pending = [one.us for one in known if not one.run.ended]
        us = propose(
            [_axis(parameter) for parameter in searched],
            np.array([one.us for one in ended]),
            np.array([one.value for one in ended]),
            np.array(pending).reshape(len(pending), len(searched)),
            [model_seed(seed), index],
        ).tolist()
    chosen = iter(us)
    return space.nest(
        [p.value if isinstance(p, Constant) else _value(p, next(chosen)) for p in space.parameters]
    )


def model_seed(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")


def outcomes(runs: Sequence[SearchRun], goal: str, impute: str = "worst") -> list[float]:
    """Return one finite value for each run; the smallest is the best.

    Runs that failed, lack the metric or diverged get a finite value of an ended run: the worst,
    or with W&B's `impute` the best or the latest; 0 if there is none. The values of running ones
    are meaningless.
    """
    sign = -1.0 if goal == "maximize" else 1.0
    values = [
        max(-LARGEST_VALUE, min(LARGEST_VALUE, sign * run.value))
        if run.value is not None and math.isfinite(run.value)
        else None
        for run in runs
    ]
    ended = [v for run, v in zip(runs, values, strict=True) if run.ended and v is not None]
    known = ended or [0.0]
    filled = {"best": min(known), "latest": known[-1]}.get(impute, max(known))
    return [
        value if run.state == "finished" and value is not None else filled
        for run, value in zip(runs, values, strict=True)
    ]


def modelled(runs: Sequence[SearchRun], values: Sequence[float]) -> list[tuple[SearchRun, float]]:
    """Select the runs for the model, with their values.

    These are all runs that have not ended, and at most LARGEST_MODEL ended ones: half of them the
    best, half evenly spaced among the rest.
    """
    pairs = list(zip(runs, values, strict=True))
    ended = sorted((pair for pair in pairs if pair[0].ended), key=lambda pair: pair[1])
    if len(ended) <= LARGEST_MODEL:
        return pairs
    best, rest = ended[: LARGEST_MODEL // 2], ended[LARGEST_MODEL // 2 :]
    size = LARGEST_MODEL - len(best)
    spread = [rest[index * len(rest) // size] for index in range(size)]
    return [*best, *spread, *(pair for pair in pairs if not pair[0].ended)]


@dataclass(frozen=True)
class _KnownRun:
    """A run, its position in the unit cube, and its value for the model."""

    run: SearchRun
    us: list[float]
    value: float


def _place(
    searched: Sequence[Parameter], known: Sequence[tuple[SearchRun, float]]
) -> Iterator[_KnownRun]:
    """Yield the runs that fit the space; log and skip others, which must not break the search."""
    space = Space(tuple(searched))
    for run, value in known:
        try:
            values = space.values_in(run.arguments)
            yield _KnownRun(run, [_u(p, v) for p, v in zip(searched, values, strict=True)], value)
        except (KeyError, ValueError, TypeError) as error:
            log.warning("bayes skips a run that does not fit the sweep: %s", error)


def _axis(parameter: Parameter) -> Dimension:
    if isinstance(parameter, Categorical):
        return Dimension(len(parameter.values), choice=True)
    if isinstance(parameter, Integer) and parameter.max - parameter.min < MOST_STEPS:
        return Dimension(parameter.max - parameter.min + 1)
    return Dimension()


def _u(parameter: Parameter, value: Any) -> float:
    if isinstance(parameter, Categorical):  # equal distances, regardless of probabilities
        return (parameter.index_of(value) + 0.5) / len(parameter.values)
    u = parameter.u_of(value)
    if math.isnan(u):
        raise ValueError(f"{'.'.join(parameter.path)} is not a number")
    return u


def _value(parameter: Parameter, u: float) -> Any:
    if isinstance(parameter, Categorical):
        return parameter.values[min(int(u * len(parameter.values)), len(parameter.values) - 1)]
    return parameter.value_at(u)
