"""The method of a sweep, what it needs, and how long its grid is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.forms import Continuous
from deployer.sweeps.parameters.keys import nearest, shown
from deployer.sweeps.parameters.space import Space
from deployer.sweeps.problem import Problem, Problems, doubt
from deployer.sweeps.validation.keys import TOP, find_misspelt
from deployer.sweeps.validation.scheduler import has_local_scheduler

METHODS = TOP["method"].choices
# More configurations than anybody waits for, even at one a second on ten agents.
LARGE_GRID = 10_000


def check_method(config: Mapping[str, Any], space: Space) -> Problems:
    """Complain about a method that is none, or that lacks what it needs."""
    method = config.get("method")
    if "method" not in config:
        hint = find_misspelt(config, "method", TOP)
        yield Problem(("method",), "missing", hint or "add method: grid, random or bayes")
    elif method not in METHODS:
        yield Problem(("method",), f"{shown(method)} is not a method", nearest(method, METHODS))
    elif method == "custom" and not has_local_scheduler(config):
        hint = "write method: grid, random or bayes, or add scheduler: {engine: optuna}"
        yield Problem(("method",), "custom, but no scheduler chooses the configurations", hint)
    elif method == "bayes" and "metric" not in config:
        hint = find_misspelt(config, "metric", TOP) or "add metric: {name: loss, goal: minimize}"
        yield Problem(("metric",), "missing, so bayes has nothing to optimise", hint)
    elif method == "grid":
        yield from _check_grid(config, space)


def _check_grid(config: Mapping[str, Any], space: Space) -> Problems:
    for parameter in space.uncountable:
        path = tuple(part for name in parameter.path for part in ("parameters", name))
        message = "a grid cannot enumerate a continuous range or probabilities"
        yield Problem(path, message, "list values: [...], or choose method: random or bayes")
    for parameter in space.parameters:
        if isinstance(parameter, Continuous) and parameter.q and (size := parameter.grid_size):
            last, end = parameter.grid_value(size - 1), parameter.second
            if math.isclose(last + parameter.q, end):
                path = tuple(part for name in parameter.path for part in ("parameters", name))
                message = f"a grid ends before max: its last value is {last:.6g}"
                yield doubt((*path, "max"), message, f"write max: {end + parameter.q / 2:.6g}")
    size = space.grid_size
    cap = config.get("run_cap")
    limit = min(size or 0, cap) if type(cap) is int else size or 0
    if limit > LARGE_GRID:
        message = f"the grid has {size:,} configurations"
        yield doubt(("parameters",), message, "choose method: random with a run_cap")
