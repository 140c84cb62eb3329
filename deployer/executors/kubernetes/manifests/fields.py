"""Small changes of manifests, which are plain dicts as YAML has them; pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from deployer.executors.kubernetes.manifests.overlay import REMOVED
from deployer.kube.names import SWEEP_PATH_ANNOTATION, build_labels

Manifest = dict[str, Any]


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


def without_none(values: Mapping[str, Any]) -> Manifest:
    return {name: value for name, value in values.items() if value is not None}
