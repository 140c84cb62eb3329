"""How good the configurations of method bayes are: against plain Optuna GP and against random.

Takes several minutes, so it runs by its name alone: `python -m tests.bench search-quality`.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from deployer.backend.search.runs import SearchRun
from deployer.backend.search.suggest import suggest
from tests.bench.figures import Figure

RUNS = 50
SEEDS = range(11)
AT_ONCE = (1, 8)
GOAL = 1.1
# A regret below this part of random's is as good as none: ratios of rounding errors say nothing.
SOLVED = 1e-3

Point = Mapping[str, Any]
Search = Callable[["Problem", int, int], float]

# Hartmann's function of six variables: weights, widths and places of its four hills.
HILLS = (1.0, 1.2, 3.0, 3.2)
WIDTHS = (
    (10.0, 3.0, 17.0, 3.5, 1.7, 8.0),
    (0.05, 10.0, 17.0, 0.1, 8.0, 14.0),
    (3.0, 3.5, 1.7, 10.0, 17.0, 8.0),
    (17.0, 8.0, 0.05, 10.0, 0.1, 14.0),
)
PLACES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


@dataclass(frozen=True)
class Problem:
    """A function to minimise, its least value, and its space as W&B and as Optuna write it."""

    name: str
    loss: Callable[[Point], float]
    least: float
    parameters: Mapping[str, Any]
    distributions: Mapping[str, optuna.distributions.BaseDistribution]


def branin(point: Point) -> float:
    """Return Branin's function; three places share its least value."""
    x, y = point["x"], point["y"]
    bowl: float = y - 5.1 * x**2 / (4 * math.pi**2) + 5 * x / math.pi - 6
    return bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def hartmann(point: Point) -> float:
    """Return Hartmann's function of six variables in [0, 1]."""
    xs = [point[f"x{i}"] for i in range(6)]
    exponents = [
        sum(w * (x - p) ** 2 for w, x, p in zip(widths, xs, places, strict=True))
        for widths, places in zip(WIDTHS, PLACES, strict=True)
    ]
    total: float = sum(h * math.exp(-e) for h, e in zip(HILLS, exponents, strict=True))
    return -total


def mixed(point: Point) -> float:
    """Return a valley over a rate, a width and a choice, as trainers have them."""
    rate = (math.log10(point["rate"]) + 3) ** 2
    width = ((point["width"] - 40) / 16) ** 2
    choice = {"relu": 0.5, "tanh": 1.0, "gelu": 0.0}[point["choice"]]
    return float(rate + width + choice + 0.3 * rate * choice)


def _uniform(low: float, high: float) -> dict[str, Any]:
    return {"distribution": "uniform", "min": low, "max": high}


_float = optuna.distributions.FloatDistribution
PROBLEMS = (
    Problem(
        "branin",
        branin,
        0.397887,
        {"x": _uniform(-5.0, 10.0), "y": _uniform(0.0, 15.0)},
        {"x": _float(-5.0, 10.0), "y": _float(0.0, 15.0)},
    ),
    Problem(
        "hartmann6",
        hartmann,
        -3.32237,
        {f"x{i}": _uniform(0.0, 1.0) for i in range(6)},
        {f"x{i}": _float(0.0, 1.0) for i in range(6)},
    ),
    Problem(
        "mixed",
        mixed,
        0.0,
        {
            "rate": {"distribution": "log_uniform_values", "min": 1e-5, "max": 1.0},
            "width": {"min": 1, "max": 64},
            "choice": {"values": ["relu", "tanh", "gelu"]},
        },
        {
            "rate": _float(1e-5, 1.0, log=True),
            "width": optuna.distributions.IntDistribution(1, 64),
            "choice": optuna.distributions.CategoricalDistribution(["relu", "tanh", "gelu"]),
        },
    ),
)


def search_ours(problem: Problem, seed: int, at_once: int, method: str = "bayes") -> float:
    """Return the regret of a sweep with so many agents, each run ending in its turn."""
    config = {
        "method": method,
        "metric": {"name": "loss"},
        "parameters": dict(problem.parameters),
    }
    ended: list[SearchRun] = []
    pending: deque[dict[str, Any]] = deque()
    for index in range(RUNS + at_once - 1):
        runs = [*ended, *(SearchRun(point, "running") for point in pending)]
        point = suggest(config, str(seed), runs, index)
        assert point is not None
        pending.append(point)
        if len(pending) == at_once:
            done = pending.popleft()
            ended.append(SearchRun(done, "finished", problem.loss(done)))
    return _regret(problem, [run.value or 0.0 for run in ended])


def search_random(problem: Problem, seed: int, at_once: int) -> float:
    """Return the regret of method random."""
    return search_ours(problem, seed, at_once, "random")


def search_optuna(problem: Problem, seed: int, at_once: int) -> float:
    """Return the regret of one Optuna study that is asked and told in the same order."""
    sampler = optuna.samplers.GPSampler(seed=seed)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    pending: deque[optuna.Trial] = deque()
    for _ in range(RUNS + at_once - 1):
        pending.append(study.ask(dict(problem.distributions)))
        if len(pending) == at_once:
            done = pending.popleft()
            study.tell(done, problem.loss(done.params))
    return _regret(problem, [t.value for t in study.trials if t.value is not None])


def _regret(problem: Problem, values: Sequence[float]) -> float:
    assert len(values) == RUNS
    return max(0.0, min(values) - problem.least)


def bench_search_quality(_: Path) -> list[Figure]:
    """Compare the median regrets after 50 runs, for one and for eight runs at once."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return [_compare(problem, at_once) for at_once in AT_ONCE for problem in PROBLEMS]


def _compare(problem: Problem, at_once: int) -> Figure:
    searches: tuple[Search, ...] = (search_ours, search_optuna, search_random)
    ours, plain, chance = (
        statistics.median(search(problem, seed, at_once) for seed in SEEDS) for search in searches
    )
    solved = SOLVED * chance
    return Figure(
        f"regret on {problem.name}, {at_once} at once / Optuna GP",
        max(ours, solved) / max(plain, solved),
        "times",
        GOAL,
        f"{ours:.4f} against {plain:.4f}; random {chance:.3f}; {len(SEEDS)} seeds",
    )
