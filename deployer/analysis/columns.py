"""Parameters of runs as columns that a model can read, and what it says of them; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.sweeps.parameters.values import value_key

Configuration = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A parameter that varies, with a place for each run.

    The place of a number is its rank among the different ones, since a model of trees, and a scale
    that is logarithmic, need no more; of a category its index. It is None where the run has no
    such parameter: `conditional` says that another parameter decides that.
    """

    name: str
    places: tuple[int | None, ...]
    category: bool
    conditional: bool

    @property
    def runs(self) -> int:
        """How many runs have a value."""
        return sum(place is not None for place in self.places)


@dataclass(frozen=True)
class Columns:
    """What varies; `constants` do not, `names` are texts of which each run has another one."""

    varying: tuple[Column, ...]
    constants: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Shares:
    """For each column its share of the metric's variance.

    `deviations` are the standard errors, `floors` the shares that noise alone may reach.
    `explained` is the share of all columns together, in runs that the model has not seen.
    """

    shares: tuple[float, ...]
    deviations: tuple[float, ...]
    floors: tuple[float, ...]
    explained: float


def build_columns(configurations: Sequence[Configuration]) -> Columns:
    """Return the parameters of some runs as columns, in the order in which they first appear."""
    order = dict.fromkeys(name for one in configurations for name in one)
    keys = {name: [_key_in(one, name) for one in configurations] for name in order}
    constants = [name for name in order if len(set(keys[name])) == 1]
    names = [n for n in order if n not in constants and _is_name(configurations, n, keys[n])]
    varying = [n for n in order if n not in constants and n not in names]
    deciding = [keys[n] for n in varying if None not in keys[n]]
    built = [_build_column(configurations, n, keys[n], deciding) for n in varying]
    return Columns(tuple(built), tuple(constants), tuple(names))


def _key_in(configuration: Configuration, name: str) -> Any:
    return value_key(configuration[name]) if name in configuration else None


def _is_name(configurations: Sequence[Configuration], name: str, keys: Sequence[Any]) -> bool:
    present = [key for key in keys if key is not None]
    values = [one[name] for one in configurations if name in one]
    return len(set(present)) == len(present) and not all(map(is_number, values))


def _build_column(
    configurations: Sequence[Configuration],
    name: str,
    keys: Sequence[Any],
    deciding: Sequence[Sequence[Any]],
) -> Column:
    values = {key: one[name] for key, one in zip(keys, configurations, strict=True) if name in one}
    numeric = all(map(is_number, values.values()))
    # Categories in an order of their own, so that the order of the runs decides nothing.
    ordered = sorted(values, key=lambda key: float(values[key]) if numeric else repr(key))
    places = {key: place for place, key in enumerate(ordered)}
    conditional = None in keys and any(_decides(other, keys) for other in deciding)
    return Column(name, tuple(places.get(key) for key in keys), not numeric, conditional)


def _decides(keys: Sequence[Any], conditional: Sequence[Any]) -> bool:
    """Tell whether each value of a parameter says whether there is another one.

    A parameter with a value for each run would say anything, so its values must repeat.
    """
    presence: dict[Any, bool] = {}
    for key, other in zip(keys, conditional, strict=True):
        if presence.setdefault(key, other is not None) != (other is not None):
            return False
    return 2 * len(presence) <= len(keys)


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number; a switch is none."""
    kind = type(value)
    if kind is float:  # what there is most of
        return math.isfinite(value)
    try:
        return isinstance(value, int | float) and kind is not bool and math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False
