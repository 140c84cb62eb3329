"""One configuration again: the sweep that repeats it, and whether it came to the same; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.sweeps.configuration_list import SEARCH_KEYS

# Of the last digits, in which the same sum in another order differs.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Judgement:
    """Whether repeats of a run came to its value; `tolerance` is what they were allowed."""

    value: float
    repeats: tuple[float, ...]
    tolerance: float
    distance: float

    @property
    def within(self) -> bool:
        """Tell whether the value lies within the tolerance of the nearest repeat."""
        return self.distance <= self.tolerance + ROUNDING * max(1.0, abs(self.value))


def build_repeat_config(
    config: Mapping[str, Any],
    configuration: Mapping[str, Any],
    count: int,
    name: str,
    description: str,
) -> dict[str, Any]:
    """Return a sweep that runs one configuration of `config` so many times, each as it ran then.

    A random sweep of constants: a grid would have one run, and nothing ends early.
    """
    kept = {key: value for key, value in config.items() if key not in SEARCH_KEYS}
    if isinstance(kept.get("metric"), Mapping):
        kept["metric"] = {key: v for key, v in kept["metric"].items() if key != "target"}
    forms = config.get("parameters") or {}
    return {
        "name": name,
        "description": description,
        **kept,
        **({"command": config["command"]} if config.get("command") else {}),
        "method": "random",
        "run_cap": count,
        "parameters": {top: _fix(forms[top], configuration[top]) for top in forms},
    }


def judge_repeats(value: float, repeats: Sequence[float], tolerance: float | None) -> Judgement:
    """Compare a run's value with those of its repeats; None: what the repeats differ by."""
    spread = max(repeats) - min(repeats) if tolerance is None else tolerance
    distance = min(abs(value - one) for one in repeats)
    return Judgement(
        value, tuple(repeats), spread, distance if math.isfinite(distance) else math.inf
    )


def _fix(form: Any, value: Any) -> dict[str, Any]:
    inner = form.get("parameters") if isinstance(form, Mapping) else None
    if isinstance(inner, Mapping) and isinstance(value, Mapping):
        return {"parameters": {name: _fix(inner[name], value[name]) for name in inner}}
    return {"value": value}
