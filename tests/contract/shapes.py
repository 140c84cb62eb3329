"""The shape of JSON values: which keys, which kinds; several values make one shape; pure.

A shape is what is written: `text`, `json` (a JSON document as text), `number`, `bool`,
`null`, two of them as `number | text`, a list as `[shape]`, an object by its keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

TOLD_BY_TYPE: tuple[Any, ...] = ("text", "number", "bool", "null", [], ["text"])

Shape = str | list[Any] | dict[str, Any]


def shape_of(values: Iterable[Any]) -> Shape:
    """Return what all of these values have in common; nulls are told only where nothing else is."""
    present = [value for value in values if value is not None]
    if not present:
        return "null"
    objects = [value for value in present if isinstance(value, Mapping)]
    if objects:
        keys = sorted({key for value in objects for key in value})
        shapes = {key: shape_of(value.get(key) for value in objects) for key in keys}
        return {key: shape for key, shape in shapes.items() if shape != "null"}
    lists = [value for value in present if isinstance(value, list)]
    if lists:
        items = [item for value in lists for item in value]
        return [shape_of(items)] if items else []
    return " | ".join(sorted({_kind(value) for value in present}))


def variables_shape(calls: list[Mapping[str, Any]]) -> dict[str, Shape]:
    """Return the shapes of the variables whose declared type does not tell it: JSON and objects."""
    shapes = shape_of(calls) if calls else {}
    assert isinstance(shapes, dict)
    return {name: shape for name, shape in shapes.items() if shape not in TOLD_BY_TYPE}


def always_null(values: list[Any], path: str = "") -> list[str]:
    """Return the paths at which no value had anything but null."""
    present = [value for value in values if value is not None]
    if values and not present:
        return [path]
    items = [item for value in present if isinstance(value, list) for item in value]
    objects = [value for value in (*present, *items) if isinstance(value, Mapping)]
    keys = sorted({key for value in objects for key in value})
    below = (
        always_null([value[key] for value in objects if key in value], f"{path}.{key}".strip("."))
        for key in keys
    )
    return [found for paths in below for found in paths]


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "json" if _is_json(str(value)) else "text"


def _is_json(text: str) -> bool:
    if not re.match(r"\s*[\[{]", text):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
