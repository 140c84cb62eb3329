"""Static volumes: a folder of this machine as volume, and as claim; nobody provisions here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster


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


def offer_volume(cluster: Cluster, name: str, folder: Path) -> None:
    """Make a folder a volume of a storage class of the same name, for a claim that will come."""
    folder.mkdir()
    folder.chmod(0o777)
    for parent in folder.parents:  # pytest's folders are its own user's alone
        if parent.name.startswith(("pytest-", "test_")):
            parent.chmod(0o755)
    spec = {
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "capacity": {"storage": "4Gi"},
        "storageClassName": name,
        "hostPath": {"path": str(folder)},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    cluster.create({**volume, "spec": spec})
