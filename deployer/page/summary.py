"""What a run's summary holds for people; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.sweeps.configurations import flatten_configuration


def flatten_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last values that a run logged, by dotted names.

    Left out is what the SDK keeps for itself, and what stands for an image, a table, a histogram.
    """
    logged = {
        name: value
        for name, value in summary.items()
        if not (isinstance(value, Mapping) and "_type" in value)
    }
    flat = flatten_configuration(logged, tuple(logged))
    return {name: value for name, value in flat.items() if name[:1] != "_" and "._" not in name}
