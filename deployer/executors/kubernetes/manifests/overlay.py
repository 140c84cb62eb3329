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

# Lists whose items are identified by a field; an item replaces the one with the same value.
KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
}
# Items of these are merged. Items of other lists cannot be: a volume has one source, a variable one
# value.
MERGED = ("containers", "initContainers")
ADDED = ("tolerations",)
REMOVED = object()  # in a patch: removes the field


class ReplacedList(list[Any]):
    """In a patch: a list that replaces another, whatever its field."""


def overlay(base: Any, patch: Any, field: str = "") -> Any:
    """Return `base` with `patch` merged in; neither is changed, but equal parts are shared.

    Mappings are merged; a list replaces another, except for the fields above. None leaves the value
    unchanged, and an empty value adds nothing.
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
    if isinstance(patch, ReplacedList):
        return list(patch)
    # A label may also be named `env`.
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
    """Return an object's name and our labels; with `sweep_path`, those of that sweep."""
    return {
        "name": name,
        "namespace": namespace or REMOVED,
        "labels": build_labels(component, sweep_path),
        "annotations": {SWEEP_PATH_ANNOTATION: sweep_path} if sweep_path else {},
    }


def encode(content: bytes) -> str:
    """Return bytes encoded for `data` and `binaryData`."""
    return base64.b64encode(content).decode()


def without_none(values: Mapping[str, Any]) -> Manifest:
    return {name: value for name, value in values.items() if value is not None}


def build_identity(cluster: ClusterConfig) -> Manifest:
    """Return a pod's identity fields: its account, user id and pull secrets."""
    user = cluster.run_as_user
    return {
        "serviceAccountName": cluster.service_account,
        "securityContext": {"runAsUser": user, "fsGroup": user},
        "imagePullSecrets": [{"name": name} for name in cluster.image_pull_secrets],
    }


def build_queue_labels(cluster: ClusterConfig) -> Manifest:
    """Return the queue labels of a Job: the queue's name, and the priority in it."""
    return without_none({QUEUE_LABEL: cluster.queue, QUEUE_PRIORITY_LABEL: cluster.queue_priority})


def list_variables(values: Mapping[str, str | SecretKey | None]) -> list[Manifest]:
    return [
        {"name": name, "valueFrom": {"secretKeyRef": asdict(value)}}
        if isinstance(value, SecretKey)
        else {"name": name, "value": value}
        for name, value in values.items()
        if value is not None
    ]
