"""The kinds of sweep parameters, the equality of values, and the space of all parameters.

`value_at(u)` is the quantile function for u in [0, 1] and `u_of(value)` its inverse; `grid_size` is
None if a grid cannot enumerate the values. Formulas are those of W&B's own search engine
(`params.py` of the MIT-licensed package `sweeps`).
"""

from __future__ import annotations

import copy
import math
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from statistics import NormalDist
from typing import Any

from deployer.errors import DeployerError
from deployer.installation import install_package

# A normal quantile at exactly 0 or 1 is infinite; 1e-6 is 4.75 standard deviations away.
EDGE = 1e-6
# exp of a larger number overflows a double.
LARGEST_EXPONENT = 709.0
STANDARD_NORMAL = NormalDist()
MOST_POINTS = 100_000  # the most points that one command lists


def value_key(value: Any) -> Hashable:
    """Return a key that is equal for equal values, also inside lists and mappings.

    9 and 9.0 are equal, because a server may return either; True and 1 are not equal, and neither
    are 1 and '1'.
    """
    if type(value) is float:  # the most common type
        return ("number", value if value == value else "nan")
    if isinstance(value, bool) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, int | float):
        return ("number", value if value == value else "nan")
    if isinstance(value, list | tuple):
        return ("list", tuple(value_key(item) for item in value))
    if isinstance(value, dict):
        return ("mapping", frozenset((value_key(k), value_key(v)) for k, v in value.items()))
    return (type(value).__name__, repr(value))


def same_value(one: Any, other: Any) -> bool:
    return value_key(one) == value_key(other)


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return the distinct values in order, the first of each."""
    kinds = set(map(type, values))
    if kinds <= {int, float} or kinds == {str}:  # `==` is correct for these, except for NaN
        found = list(dict.fromkeys(values))
        if all(value == value for value in found):
            return found
    seen: dict[Hashable, Any] = {}
    for value in values:
        seen.setdefault(value_key(value), value)
    return list(seen.values())


@dataclass(frozen=True)
class Constant:
    """A parameter with one value."""

    path: tuple[str, ...]
    value: Any

    @property
    def grid_size(self) -> int | None:
        """Return the size of its grid: one."""
        return 1

    def grid_value(self, index: int) -> Any:  # noqa: ARG002 - one interface for all forms
        return self.value

    def value_at(self, u: float) -> Any:  # noqa: ARG002
        return self.value

    def u_of(self, value: Any) -> float:  # noqa: ARG002
        """Return 0.5: every u maps to the value."""
        return 0.5


@dataclass(frozen=True)
class Categorical:
    """One of a list of values of any type; without `probabilities` all are equally likely."""

    path: tuple[str, ...]
    values: tuple[Any, ...]
    probabilities: tuple[float, ...] = ()

    @cached_property
    def _distinct(self) -> list[Any]:
        return distinct(self.values)

    @property
    def grid_size(self) -> int | None:
        return None if self.probabilities else len(self._distinct)

    def grid_value(self, index: int) -> Any:
        """Return the distinct value at an index, in file order."""
        return self._distinct[index]

    def index_of(self, value: Any) -> int:
        """Return the index in `values`; raise ValueError if the value is missing."""
        key = value_key(value)
        for index, candidate in enumerate(self.values):
            if value_key(candidate) == key:
                return index
        raise ValueError(f"{value!r} is not among the values of {'.'.join(self.path)}")

    def value_at(self, u: float) -> Any:
        """Return the value at index floor(u·n), or by cumulative probability if given."""
        if not self.probabilities:
            return self.values[min(int(u * len(self.values)), len(self.values) - 1)]
        index = bisect_right(list(accumulate(self.probabilities)), u)
        likely = [i for i, probability in enumerate(self.probabilities) if probability > 0]
        return self.values[min(index, likely[-1])]

    def u_of(self, value: Any) -> float:
        """Return the middle of the value's interval; raise ValueError if the value is unknown."""
        index = self.index_of(value)
        if not self.probabilities:
            return (index + 0.5) / len(self.values)
        return sum(self.probabilities[:index]) + self.probabilities[index] / 2


@dataclass(frozen=True)
class Integer:
    """`int_uniform`: every integer from `min` to `max`, both included, equally likely."""

    path: tuple[str, ...]
    min: int
    max: int

    @property
    def grid_size(self) -> int | None:
        return self.max - self.min + 1

    def grid_value(self, index: int) -> int:
        return self.min + index

    def value_at(self, u: float) -> int:
        size = self.max - self.min + 1
        return self.min + min(int(u * size), size - 1)

    def u_of(self, value: Any) -> float:
        """Return the middle of the value's interval."""
        size = self.max - self.min + 1
        return _clip((float(value) - self.min + 0.5) / size, 0.0, 1.0)


@dataclass(frozen=True)
class Continuous:
    """A number from one of W&B's continuous distributions.

    `first` and `second` are min and max, mu and sigma, or a and b. With `q` the value is rounded to
    a multiple of it and may therefore leave [min, max], as in W&B; it is an int if q is one.
    """

    path: tuple[str, ...]
    distribution: str
    first: float
    second: float
    q: float | None = None

    @property
    def grid_size(self) -> int | None:
        """Return the size of its grid (only `q_uniform`), counted like numpy.arange."""
        if self.distribution != "q_uniform" or self.q is None:
            return None
        return max(1, math.ceil((self.second - self.first) / self.q))

    def grid_value(self, index: int) -> float:
        """Return min + index·q, with numpy.arange's arithmetic and type."""
        assert self.q is not None
        step = (self.first + self.q) - self.first
        value = self.first + index * step
        return float(value) if isinstance(self.second, float) else value

    def value_at(self, u: float) -> float:
        """Return the quantile, rounded to a multiple of `q` if there is one."""
        x = self._inner_quantile(u)
        value = math.exp(min(x, LARGEST_EXPONENT)) if self._exponential else x
        if self.distribution.endswith("_values"):
            value = _clip(value, self.first, self.second)  # exp(log(max)) can exceed max
        return value if self.q is None else round(value / self.q) * self.q

    def u_of(self, value: Any) -> float:
        """Return the cumulative probability of a value, 0 or 1 outside the range."""
        x = float(value)
        if self._exponential:
            if x <= 0:
                return 0.0
            x = math.log(x)
        return _clip(self._inner_cdf(x), 0.0, 1.0)

    @property
    def _base(self) -> str:
        """The distribution of the value, or of its logarithm for the log forms."""
        name = self.distribution
        return "uniform" if "uniform" in name else "normal" if "normal" in name else "beta"

    @property
    def _exponential(self) -> bool:
        return "log_" in self.distribution

    @property
    def _range(self) -> tuple[float, float]:
        """The range of the uniform variable, which is an exponent in the log forms."""
        if self.distribution.endswith("_values"):
            return math.log(self.first), math.log(self.second)
        if self.distribution.startswith("inv_"):
            return -self.second, -self.first
        return self.first, self.second

    def _inner_quantile(self, u: float) -> float:
        if self._base == "uniform":
            low, high = self._range
            return _clip(low + u * (high - low), low, high)
        inside = _clip(u, EDGE, 1 - EDGE)
        if self._base == "normal":
            return self.first + self.second * STANDARD_NORMAL.inv_cdf(inside)
        return float(_scipy_special().betaincinv(self.first, self.second, u))

    def _inner_cdf(self, x: float) -> float:
        if self._base == "uniform":
            low, high = self._range
            return (x - low) / (high - low)
        if self._base == "normal":
            return STANDARD_NORMAL.cdf((x - self.first) / self.second) if self.second else 0.5
        return float(_scipy_special().betainc(self.first, self.second, _clip(x, 0.0, 1.0)))


Parameter = Constant | Categorical | Integer | Continuous


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _scipy_special() -> Any:
    """Import scipy only for functions that nothing else has: the import takes 0.1 s."""
    try:
        from scipy import special
    except ImportError as error:
        raise DeployerError(
            "the distributions beta and q_beta need scipy", install_package("scipy")
        ) from error
    return special


@dataclass(frozen=True)
class Space:
    """Parameters sorted by path, nested ones by their full path, as in W&B's engine."""

    parameters: tuple[Parameter, ...]

    @property
    def uncountable(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.grid_size is None)

    @property
    def grid_size(self) -> int | None:
        sizes = [p.grid_size for p in self.parameters]
        return math.prod(s for s in sizes if s is not None) if None not in sizes else None

    def grid_point(self, index: int) -> dict[str, Any] | None:
        """Return a configuration by its index, the last parameter fastest; None past the end."""
        size = self.grid_size
        if size is None or not 0 <= index < size:
            return None
        values: list[Any] = []
        for parameter in reversed(self.parameters):
            index, digit = divmod(index, parameter.grid_size or 1)
            values.append(parameter.grid_value(digit))
        return self.nest(values[::-1])

    def list_points(self) -> list[dict[str, Any]]:
        """Return every configuration of a grid; raise DeployerError if there are too many."""
        size = self.grid_size or 0
        if size > MOST_POINTS:
            said = f"the grid has {size:,} configurations, more than {MOST_POINTS:,}"
            raise DeployerError(said, "give it fewer values, or method: random and a run_cap")
        return [point for n in range(size) if (point := self.grid_point(n)) is not None]

    def grid_index(self, arguments: Mapping[str, Any]) -> int | None:
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
