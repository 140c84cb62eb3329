"""How good the configurations of method bayes are: against Optuna's GP sampler and against random.

All three begin with the same random configurations.

Takes many minutes, so it runs by its name alone: `python -m tests.bench search-quality`.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from deployer.backend.scheduling.bayes import model_seed
from deployer.backend.scheduling.search import SearchRun, random_point, suggest
from deployer.sweeps.parameters import parse_parameters
from tests.bench.figures import Figure

RUNS = 50
SEEDS = range(9)
AT_ONCE = (1, 8)
GOAL = 1.1
ENDED = (optuna.trial.TrialState.COMPLETE,)
STARTUP_TRIALS = 10  # Optuna's default
# A median regret below this part of random's counts as this part: both have solved the problem
# then, and a ratio of what is left says nothing.
SOLVED = 1e-3
PROCESSES = 2
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ROW = "{:10} {:>7} {:>9} {:>11} {:>11} {:>6}  {}"

Point = Mapping[str, Any]

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
            "choice": optuna.distributions.CategoricalDistribution(["relu", "tanh", "gelu"]),
            "rate": _float(1e-5, 1.0, log=True),
            "width": optuna.distributions.IntDistribution(1, 64),
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
    sampler = optuna.samplers.GPSampler(seed=model_seed(str(seed)))
    study = optuna.create_study(direction="minimize", sampler=sampler)
    space, _ = parse_parameters(dict(problem.parameters))
    pending: deque[optuna.Trial] = deque()
    for index in range(RUNS + at_once - 1):
        if len(study.get_trials(states=ENDED)) < STARTUP_TRIALS:
            study.enqueue_trial(random_point(space, str(seed), index))
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
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    print(f"median regret after {RUNS} runs, {len(SEEDS)} seeds, from the same random start")
    print(f"below {SOLVED:g} of random's, a regret counts as that much in the ratio (marked *)")
    print(ROW.format("space", "at once", "random", "Optuna GP", "ours", "ratio", "better"))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, context, initializer=_be_quiet) as pool:
        return [_compare(pool, problem, n) for n in AT_ONCE for problem in PROBLEMS]


def _be_quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def _compare(pool: Executor, problem: Problem, at_once: int) -> Figure:
    searches = (search_ours, search_optuna, search_random)
    tasks = [[pool.submit(search, problem, seed, at_once) for seed in SEEDS] for search in searches]
    ours, plain, chance = ([task.result() for task in row] for row in tasks)
    mine, other, random = (statistics.median(regrets) for regrets in (ours, plain, chance))
    solved = SOLVED * random
    ratio = max(mine, solved) / max(other, solved)
    better = sum(m < o for m, o in zip(ours, plain, strict=True))
    marks = ["*" if regret < solved else " " for regret in (other, mine)]
    cells = (f"{random:.4f}", f"{other:.6f}{marks[0]}", f"{mine:.6f}{marks[1]}", f"{ratio:.2f}")
    print(ROW.format(problem.name, at_once, *cells, f"{better} of {len(ours)}"), flush=True)
    name = f"regret on {problem.name}, {at_once} at once / Optuna GP"
    return Figure(name, ratio, "times", GOAL, f"{mine:.6f} against {other:.6f}")
