"""When two values of a parameter are equal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any


def value_key(value: Any) -> Hashable:
    """Return a key that is equal for equal values, looking inside lists and mappings.

    9 and 9.0 are equal, since a configuration comes back from a server as either of them;
    True and 1 are not, and neither are 1 and '1'.
    """
    if type(value) is float:  # what there is most of
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
    """Tell whether two values make the same configuration."""
    return value_key(one) == value_key(other)


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return the values without repetitions, the first of equal ones kept, order kept."""
    kinds = set(map(type, values))
    if kinds <= {int, float} or kinds == {str}:  # equal as they are, but for NaN
        found = list(dict.fromkeys(values))
        if all(value == value for value in found):
            return found
    seen: dict[Hashable, Any] = {}
    for value in values:
        seen.setdefault(value_key(value), value)
    return list(seen.values())
