"""How many configurations a sweep has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.parse import parse_parameters


def expected_count(config: Mapping[str, Any]) -> int | None:
    """Return how many configurations a sweep has, None for an endless or an unsearchable one.

    A grid has the product of its different values; `run_cap` limits every method.
    """
    cap = config.get("run_cap")
    limit = cap if type(cap) is int and cap > 0 else None
    if config.get("method") != "grid":
        return limit
    space, _ = parse_parameters(config.get("parameters", {}))
    size = space.grid_size
    return limit if size is None else size if limit is None else min(size, limit)
