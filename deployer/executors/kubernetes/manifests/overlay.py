"""Lays a few fields over a manifest; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Lists whose items are told apart by a field; an item stands in the place of the one it is laid on.
KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
}
# Their items are laid over one another. Of others two would not fit together: a volume has one
# source, a variable one value.
MERGED = ("containers", "initContainers")
ADDED = ("tolerations",)
REMOVED = object()  # in a patch: the field is not in the manifest


class Whole(list[Any]):
    """In a patch: a list that takes the place of another one, whatever its field."""


def overlay(base: Any, patch: Any, field: str = "") -> Any:
    """Return `base` with `patch` laid over it; neither is changed, but what is alike is shared.

    Mappings are merged, and a list takes the place of another one but for those named above. None
    leaves what is there, and what is empty adds nothing.
    """
    if isinstance(patch, Mapping):
        merged = dict(base or {})
        for name, value in patch.items():
            if value is REMOVED:
                merged.pop(name, None)
            if value is None or value is REMOVED:
                continue
            laid = overlay(merged.get(name), value, name)
            if laid not in ({}, []) or merged.get(name) is not None:
                merged[name] = laid
        return merged
    if isinstance(patch, Whole):
        return list(patch)
    # A label, too, may be called `env`.
    if isinstance(patch, list) and field in ADDED:
        return [*(base or ()), *patch]
    if isinstance(patch, list) and (key := KEYS.get(field)):
        items = {item.get(key): item for item in base or ()}
        for item in patch:
            known = items.get(item[key])
            items[item[key]] = overlay(known, item) if field in MERGED else item
        return list(items.values())
    return patch
