"""Few configurations that show all that a sweep may give to its script; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.forms import Categorical, Constant, Continuous, Integer, Parameter
from deployer.sweeps.parameters.parse import parse_parameters
from deployer.sweeps.parameters.values import distinct

MOST_VALUES = 10_000  # of one parameter
MOST_CELLS = 1_000_000  # parameters times configurations
# Neither end, and no number that happens to be whole.
INSIDE = 0.3819
# Quantiles of distributions without ends.
OPEN_ENDS = (0.001, 0.999)


def list_corners(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return configurations in which each value of a list and both ends of each range occur.

    The first is the first of a grid.
    """
    space, _ = parse_parameters(config.get("parameters", {}))
    values = [list_values(parameter) for parameter in space.parameters]
    if not values:
        return [{}]
    longest = min(max(map(len, values)), 1 + MOST_CELLS // len(values))
    rows = [[v[min(i, len(v) - 1)] for v in values] for i in range(longest)]
    return distinct([space.nest(row) for row in rows])


def list_values(parameter: Parameter) -> list[Any]:
    """Return a parameter's values, or both ends of its range, then a value inside."""
    match parameter:
        case Constant(value=value):
            return [value]
        case Categorical(values=values):
            return distinct(values)[:MOST_VALUES]
        case Integer(min=low, max=high):
            return [low, high]
        case Continuous():
            ends = (0.0, 1.0) if "uniform" in parameter.distribution else OPEN_ENDS
            drawn = [parameter.value_at(u) for u in (*ends, INSIDE)]
            return drawn if parameter.q else [float(value) for value in drawn]


def list_drawn(config: Mapping[str, Any]) -> list[str]:
    """Return the parameters whose value is any number of a range."""
    given = (config.get("parameters") or {}).items()
    return [n for n, raw in given if isinstance(raw, Mapping) and "min" in raw and "q" not in raw]
