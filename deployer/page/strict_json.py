"""Encodes users' values as strict JSON, without NaN, for browsers that use doubles; pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

EXACT_IN_A_DOUBLE = 2**53
SCALARS = {str, float, bool, type(None)}
ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=str)


@dataclass(frozen=True)
class Encoded:
    """A value already encoded as strict JSON, for reuse in many documents."""

    text: bytes


def to_strict_json(document: Mapping[str, Any]) -> bytes:
    """Return a document in ASCII. NaN, infinities and integers above 2^53 become text."""
    parts = (
        json.dumps(name).encode("ascii") + b":" + encode_value(value)
        for name, value in document.items()
    )
    return b"{" + b",".join(parts) + b"}"


def encode_values(document: Mapping[str, Any]) -> dict[str, Encoded]:
    return {name: Encoded(encode_value(value)) for name, value in document.items()}


def encode_value(value: Any) -> bytes:
    if isinstance(value, Encoded):
        return value.text
    if _needs_no_change(value):
        with suppress(ValueError):  # NaN, which is encoded as text
            return ENCODER.encode(value).encode("ascii")
    return ENCODER.encode(_plain(value)).encode("ascii")


def _needs_no_change(value: Any) -> bool:
    """Return True if doubles can hold a list of scalars; fast, as these are most of a table."""
    if type(value) is not list:
        return False
    kinds = set(map(type, value))
    if kinds <= SCALARS:
        return True
    if kinds == {list}:
        return all(map(_needs_no_change, value))
    return kinds - {int} <= SCALARS and all(
        -EXACT_IN_A_DOUBLE <= one <= EXACT_IN_A_DOUBLE for one in value if type(one) is int
    )


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is float:
        return value if value - value == 0.0 else name_float(value)
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, int) and abs(value) > EXACT_IN_A_DOUBLE:
        return str(value)
    return value


def name_float(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
