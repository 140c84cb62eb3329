"""The number of runs at which a sweep ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.keys import shown
from deployer.sweeps.parameters.space import Space
from deployer.sweeps.problem import Problem, Problems, doubt
from deployer.sweeps.validation.keys import TOP, find_misspelt
from deployer.text import format_count


def check_run_cap(config: Mapping[str, Any], space: Space) -> Problems:
    """Complain about a cap that is no number, and doubt one that a grid never reaches."""
    cap = config.get("run_cap")
    if "run_cap" not in config:
        return
    if type(cap) is not int or cap < 1:
        message = f"{shown(cap)} is not a whole number above 0"
        yield Problem(("run_cap",), message, "write run_cap: 20")
    elif config.get("method") == "grid" and cap > (space.grid_size or cap):
        size = format_count(space.grid_size or 0, "configuration")
        message = f"the grid has only {size}, so it ends before {cap:,} runs"
        yield doubt(("run_cap",), message, "remove it, or add values")


def check_end(config: Mapping[str, Any]) -> Problems:
    """Complain about a sweep that never ends."""
    method = config.get("method")
    if "run_cap" not in config and method in ("random", "bayes"):
        message = f"missing, and {method} never ends without it"
        hint = find_misspelt(config, "run_cap", TOP) or "add run_cap: 20, or use --run-cap 20"
        yield Problem(("run_cap",), message, hint)
