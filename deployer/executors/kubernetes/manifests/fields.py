"""Small changes of manifests, which are plain dicts as YAML has them; pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from deployer.executors.kubernetes.manifests.overlay import REMOVED
from deployer.kube.names import SWEEP_PATH_ANNOTATION, build_labels

Manifest = dict[str, Any]


def set_namespace(metadata: Manifest, namespace: str | None) -> None:
    """Name the namespace, or leave it to whoever sends the manifest."""
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def build_metadata(name: str, component: str, sweep_path: str, namespace: str | None) -> Manifest:
    """Name an object and label it as ours; with `sweep_path`, as one that goes with that sweep."""
    return {
        "name": name,
        "namespace": namespace or REMOVED,
        "labels": build_labels(component, sweep_path),
        "annotations": {SWEEP_PATH_ANNOTATION: sweep_path} if sweep_path else {},
    }


def encode(content: bytes) -> str:
    """Return bytes as `data` and `binaryData` hold them."""
    return base64.b64encode(content).decode()


def update(target: Manifest, name: str, values: Mapping[str, Any]) -> None:
    """Add values to a mapping in `target`, which may be missing or empty (`null` in YAML)."""
    if values:
        target[name] = {**(target.get(name) or {}), **values}


def merged(items: Iterable[Manifest], added: Iterable[Manifest]) -> list[Manifest]:
    """Return items with those added, each in the place of the one that has its name."""
    return list({item["name"]: item for item in (*items, *added)}.values())


def without_none(values: Mapping[str, Any]) -> Manifest:
    return {name: value for name, value in values.items() if value is not None}
