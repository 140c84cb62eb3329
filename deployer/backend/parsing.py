"""JSON from clients, parsed once and with limits, so that later code can rely on the values."""

from __future__ import annotations

import json
from typing import Any

from deployer.backend.refusal import Refusal

MOST_LEVELS = 100  # more than any client nests, and few enough for what walks through a value
LARGEST_INT = 2**31 - 1  # GraphQL's
SURROGATES = ("\\ud", "\\uD")


def parse_json(text: str, what: str) -> Any:
    """Parse JSON, in which NaN and Infinity are allowed; refuse anything else with 400.

    Lone surrogates are replaced, since UTF-8 cannot encode them.
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
    """Parse a JSON object; refuse anything else with 400."""
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
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(one, dict | list) for one in level)


def _too_deep(what: str) -> Refusal:
    return Refusal(400, f"{what} is nested more than {MOST_LEVELS} levels deep")


def repair(value: Any) -> Any:
    """Replace lone surrogates in a value's texts."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {repair(key): repair(inner) for key, inner in value.items()}
    return [repair(inner) for inner in value] if isinstance(value, list) else value
