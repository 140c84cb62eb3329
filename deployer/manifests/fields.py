"""Small changes of manifests, which are plain dicts as YAML has them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Manifest = dict[str, Any]


def set_namespace(metadata: Manifest, namespace: str | None) -> None:
    """Name the namespace, or leave it to whoever sends the manifest."""
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def update(target: Manifest, name: str, values: Mapping[str, Any]) -> None:
    """Add values to a mapping in `target`, which may be missing or empty (`null` in YAML)."""
    if values:
        target[name] = {**(target.get(name) or {}), **values}


def merged(items: Iterable[Manifest], added: Iterable[Manifest]) -> list[Manifest]:
    """Return items with those added, each in the place of the one that has its name."""
    return list({item["name"]: item for item in (*items, *added)}.values())


def without_none(values: Mapping[str, Any]) -> Manifest:
    return {name: value for name, value in values.items() if value is not None}
