"""Bayesian search: runs as points of a unit cube, and the point that a Gaussian process proposes.

A choice is an axis of steps without an order, an integer one of ordered steps; other numbers are
u in [0, 1], mapped by their quantile function as W&B's own engine does.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deployer.backend.scheduling.search.gaussian import Axis, propose
from deployer.backend.scheduling.search.runs import SearchRun
from deployer.sweeps.space import Categorical, Constant, Integer, Parameter, Space

# Ended runs that a model is made of: its cost grows with their third power (with 10 parameters, 200
# take a core 0.6 s, 400 take it 3 s).
LARGEST_MODEL = 200
# Integers with more values are searched as numbers.
MOST_STEPS = 1000
# The model squares values: larger ones would overflow a double.
LARGEST_VALUE = 1e100

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

    Runs that have not ended count as pending; a run that does not fit the space is skipped with
    a line in the log. The same arguments give the same configuration.
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
    """Return the number that a sweep's search starts from."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")


def outcomes(runs: Sequence[SearchRun], goal: str, impute: str = "worst") -> list[float]:
    """Return one finite value for each run, the smallest the best.

    Runs that failed, lack the metric or diverged get a finite value of an ended run: the worst,
    or with W&B's `impute` the best or the latest; 0 if there is none. The values of
    running ones mean nothing.
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
    """Return the runs that the model is fitted to, with their values.

    These are all runs that have not ended, and at most LARGEST_MODEL that have: half of them the
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
class _Known:
    """A run, its place in the unit cube, and its value for the model."""

    run: SearchRun
    us: list[float]
    value: float


def _place(
    searched: Sequence[Parameter], known: Sequence[tuple[SearchRun, float]]
) -> Iterator[_Known]:
    """Yield the runs that fit the space; a bad run must never break the search."""
    space = Space(tuple(searched))
    for run, value in known:
        try:
            values = space.values_in(run.arguments)
            yield _Known(run, [_u(p, v) for p, v in zip(searched, values, strict=True)], value)
        except (KeyError, ValueError, TypeError) as error:
            log.warning("bayes skips a run that does not fit the sweep: %s", error)


def _axis(parameter: Parameter) -> Axis:
    if isinstance(parameter, Categorical):
        return Axis(len(parameter.values), choice=True)
    if isinstance(parameter, Integer) and parameter.max - parameter.min < MOST_STEPS:
        return Axis(parameter.max - parameter.min + 1)
    return Axis()


def _u(parameter: Parameter, value: Any) -> float:
    if isinstance(parameter, Categorical):  # all as far from each other, whatever is likely
        return (parameter.index_of(value) + 0.5) / len(parameter.values)
    u = parameter.u_of(value)
    if math.isnan(u):
        raise ValueError(f"{'.'.join(parameter.path)} is not a number")
    return u


def _value(parameter: Parameter, u: float) -> Any:
    if isinstance(parameter, Categorical):
        return parameter.values[min(int(u * len(parameter.values)), len(parameter.values) - 1)]
    return parameter.value_at(u)
