"""JSON of clients: parsed once, with limits, to values that everything behind may rely on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from deployer.backend.refusal import Refusal

MOST_LEVELS = 100  # more than any client nests, and few enough for what walks through a value
LARGEST_INT = 2**31 - 1  # of GraphQL
SURROGATES = ("\\ud", "\\uD")


def parse_json(text: str, what: str) -> Any:
    """Parse JSON that may hold bare NaN or Infinity; refuse with 400 anything else.

    Halves of surrogate pairs, which no database and no answer can hold, are replaced.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise _too_deep(what) from error
    except ValueError as error:
        raise Refusal(400, f"{what} is not JSON: {error}") from error
    # Most texts have fewer brackets than levels are allowed.
    if text.count("[") + text.count("{") > MOST_LEVELS and _is_deep(value):
        raise _too_deep(what)
    return repair(value) if any(half in text for half in SURROGATES) else value


def parse_object(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object; refuse with 400 anything else."""
    value = parse_json(text, what)
    if not isinstance(value, dict):
        raise Refusal(400, f"{what} is not a JSON object")
    return value


def read_object(text: str) -> dict[str, Any] | None:
    """Parse a stored JSON object; None for anything else."""
    try:
        return parse_object(text, "what is stored")
    except Refusal:
        return None


def _is_deep(value: Any) -> bool:
    level = _nested([value])
    for _ in range(MOST_LEVELS):
        if not level:
            return False
        level = _nested(
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        )
    return bool(level)


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, dict | list)]


def _too_deep(what: str) -> Refusal:
    return Refusal(400, f"{what} is nested more than {MOST_LEVELS} levels deep")


def repair(value: Any) -> Any:
    """Replace halves of surrogate pairs in a value's texts."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {repair(key): repair(inner) for key, inner in value.items()}
    return [repair(inner) for inner in value] if isinstance(value, list) else value
