"""The search space of a sweep: how many configurations, the k-th one, the one at a point."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.errors import DeployerError
from deployer.sweeps.parameters.forms import Parameter
from deployer.sweeps.parameters.values import value_key

MOST_POINTS = 100_000  # that one command lists


@dataclass(frozen=True)
class Space:
    """Parameters sorted by path, nested ones by all of theirs, as W&B's engine sorts them."""

    parameters: tuple[Parameter, ...]

    @property
    def uncountable(self) -> tuple[Parameter, ...]:
        """Return the parameters that a grid cannot enumerate."""
        return tuple(p for p in self.parameters if p.grid_size is None)

    @property
    def grid_size(self) -> int | None:
        """Return the number of different configurations, None where it is not finite."""
        sizes = [p.grid_size for p in self.parameters]
        return math.prod(s for s in sizes if s is not None) if None not in sizes else None

    def grid_point(self, index: int) -> dict[str, Any] | None:
        """Return the index-th configuration, the last parameter fastest; None after the last."""
        size = self.grid_size
        if size is None or not 0 <= index < size:
            return None
        values: list[Any] = []
        for parameter in reversed(self.parameters):
            index, digit = divmod(index, parameter.grid_size or 1)
            values.append(parameter.grid_value(digit))
        return self.nest(values[::-1])

    def list_points(self) -> list[dict[str, Any]]:
        """Return every configuration of a grid; raise DeployerError for one of very many."""
        size = self.grid_size or 0
        if size > MOST_POINTS:
            said = f"the grid has {size:,} configurations, more than {MOST_POINTS:,}"
            raise DeployerError(said, "give it fewer values, or method: random and a run_cap")
        return [point for n in range(size) if (point := self.grid_point(n)) is not None]

    def grid_index(self, arguments: Mapping[str, Any]) -> int | None:
        """Return the place of a configuration in the grid, None if it is not in it."""
        index = 0
        for parameter in self.parameters:
            try:
                key = value_key(_dig(arguments, parameter.path))
            except KeyError:
                return None
            size = parameter.grid_size or 0
            digits = (n for n in range(size) if value_key(parameter.grid_value(n)) == key)
            digit = next(digits, None)
            if digit is None:
                return None
            index = index * size + digit
        return index

    def point(self, us: Sequence[float]) -> dict[str, Any]:
        """Return the configuration at one u in [0, 1] for each parameter."""
        return self.nest([p.value_at(u) for p, u in zip(self.parameters, us, strict=True)])

    def nest(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return {top name: value or nested mapping} in W&B's order: plain names, then groups."""
        plain: dict[str, Any] = {}
        groups: dict[str, Any] = {}
        for parameter, value in zip(self.parameters, values, strict=True):
            target = plain if len(parameter.path) == 1 else groups
            for name in parameter.path[:-1]:
                target = target.setdefault(name, {})
            target[parameter.path[-1]] = copy.deepcopy(value)
        return plain | groups

    def values_in(self, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the parameters' values in a configuration; raise KeyError if one is missing."""
        return [_dig(arguments, p.path) for p in self.parameters]


def _dig(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            raise KeyError(".".join(path))
        value = value[name]
    return value
