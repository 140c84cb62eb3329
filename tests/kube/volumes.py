"""Static volumes: a folder of this machine as volume and claim; nobody provisions here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kube.cluster import Cluster


def make_volume(cluster: Cluster, namespace: str, claim: str, folder: Path) -> None:
    """Make a claim in a namespace, bound to a folder that uid 1000 may write."""
    name = f"{namespace}-{claim}"
    common: dict[str, Any] = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",  # no class: bind to the volume of this name
        "volumeMode": "Filesystem",
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}},
    }
    request = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim},
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.create(volume)
    cluster.create(request, namespace)
    cluster.wait_for(f"pvc/{claim}", "jsonpath=.status.phase=Bound", namespace)
