"""Images and tables that a run logged, as they stand in its history; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MOST_ITEMS = 60
KINDS = {"image-file": "image", "images/separated": "image", "table-file": "table"}


def list_media(
    history: Iterable[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the newest media by name: kind, step, and the paths of files that are there."""
    present = {str(file["name"]) for file in files}
    newest: dict[str, dict[str, Any]] = {}
    for row in history:
        for name, value in row.items():
            if isinstance(value, Mapping) and (kind := KINDS.get(str(value.get("_type")))):
                paths = [path for path in _paths(value) if path in present]
                if paths:
                    step = row.get("_step")
                    newest[name] = {"name": name, "kind": kind, "step": step, "paths": paths}
    return list(newest.values())[:MOST_ITEMS]


def _paths(value: Mapping[str, Any]) -> list[str]:
    many = value.get("filenames")
    if isinstance(many, list):
        return [str(path) for path in many[:MOST_ITEMS]]
    return [str(value["path"])] if value.get("path") else []
