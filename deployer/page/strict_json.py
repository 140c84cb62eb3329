"""Users' values as strict JSON, which has no NaN and which browsers read as doubles; pure."""

from __future__ import annotations

import json
import math
from typing import Any

EXACT_IN_A_DOUBLE = 2**53


def to_strict_json(value: Any) -> bytes:
    """Return JSON in ASCII. NaN, infinities and integers beyond 2^53 become texts."""
    text = json.dumps(_plain(value), allow_nan=False, separators=(",", ":"), default=str)
    return text.encode("ascii")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, int) and abs(value) > EXACT_IN_A_DOUBLE:
        return str(value)
    return value
