"""Lays settings over a manifest, field by field; pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from deployer.config.kubernetes import ClusterConfig, SecretKey
from deployer.kube.objects import (
    QUEUE_LABEL,
    QUEUE_PRIORITY_LABEL,
    SWEEP_PATH_ANNOTATION,
    Manifest,
    build_labels,
)

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


def build_identity(cluster: ClusterConfig) -> Manifest:
    """Return the fields of a pod that say as whom it runs, and how its image is pulled."""
    user = cluster.run_as_user
    return {
        "serviceAccountName": cluster.service_account,
        "securityContext": {"runAsUser": user, "fsGroup": user},
        "imagePullSecrets": [{"name": name} for name in cluster.image_pull_secrets],
    }


def build_queue_labels(cluster: ClusterConfig) -> Manifest:
    """Return the labels of a Job that waits in a queue: its name, and the priority there."""
    return without_none({QUEUE_LABEL: cluster.queue, QUEUE_PRIORITY_LABEL: cluster.queue_priority})


def list_variables(values: Mapping[str, str | SecretKey | None]) -> list[Manifest]:
    return [
        {"name": name, "valueFrom": {"secretKeyRef": asdict(value)}}
        if isinstance(value, SecretKey)
        else {"name": name, "value": value}
        for name, value in values.items()
        if value is not None
    ]
