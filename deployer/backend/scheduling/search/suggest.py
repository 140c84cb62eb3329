"""The next configuration of a sweep, from its configuration, a seed, its runs and an index.

It depends on the arguments alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.backend.scheduling.search.runs import SearchRun
from deployer.sweeps.parameters import expected_count, parse_parameters
from deployer.sweeps.results import metric_goal, metric_name
from deployer.sweeps.space import Space

__all__ = [
    "SearchError",
    "SearchRun",
    "expected_count",
    "needs_model",
    "random_point",
    "refusals",
    "suggest",
]

METHODS = ("grid", "random", "bayes")
# Runs that are drawn before a model chooses; Optuna's own default.
STARTUP_RUNS = 10
# Outcomes that a model needs. Optuna waits for ten, and draws meanwhile for every other agent.
FEWEST_OUTCOMES = 3


class SearchError(Exception):
    """This sweep cannot be searched; the text says why."""


def suggest(
    config: Mapping[str, Any], seed: str, runs: Sequence[SearchRun], index: int
) -> dict[str, Any] | None:
    """Return the configuration at `index` (0, 1, …) as plain values, None when a grid is done.

    The order of the names is W&B's. `runs` matter to bayes alone. The caller applies `run_cap`.
    Raise SearchError for a sweep that cannot be searched.
    """
    problems = refusals(config)
    if problems:
        raise SearchError(problems[0])
    space, _ = parse_parameters(config["parameters"])
    if config["method"] == "grid":
        return space.grid_point(index)
    if needs_model(config, runs):
        from deployer.backend.scheduling.search.bayes import suggest_bayes  # imports take a second

        impute = str(config["metric"].get("impute", "worst"))
        return suggest_bayes(space, metric_goal(config), seed, runs, index, impute)
    return random_point(space, seed, index)


def needs_model(config: Mapping[str, Any], runs: Sequence[SearchRun]) -> bool:
    """Tell whether the next suggestion comes from a model: bayes, after its first runs."""
    if config.get("method") != "bayes" or len(runs) < STARTUP_RUNS:
        return False
    return sum(run.ended for run in runs) >= FEWEST_OUTCOMES


def random_point(space: Space, seed: str, index: int) -> dict[str, Any]:
    """Draw the configuration at `index` from a generator of its own."""
    generator = random.Random(f"{seed}:{index}")
    return space.point([generator.random() for _ in space.parameters])


def refusals(config: Mapping[str, Any]) -> list[str]:
    """Return every reason why a sweep cannot be searched; none if it can.

    `engine.find_missing_package` says whether bayes has what it imports.
    """
    method = config.get("method")
    space, problems = parse_parameters(config.get("parameters", {}))
    found = [
        f"{'.'.join(c.path)}: {c.message}" + (f" ({c.hint})" if c.hint else "")
        for c in problems
        if c.severity == "error"
    ]
    if method not in METHODS:
        found.append(f"method: {method!r} is not one of {', '.join(METHODS)}")
    if method == "grid":
        found += [
            f"parameters.{'.parameters.'.join(p.path)}: a grid needs values that can be counted"
            for p in space.uncountable
        ]
    if method == "bayes" and not metric_name(config):
        found.append("metric: bayes needs a metric with a name")
    return found
