"""What the pods of agents, of data loaders and of the backend have alike; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.kubernetes_parts import SecretKey
from deployer.executors.kubernetes.manifests.fields import Manifest, without_none
from deployer.kube.names import QUEUE_LABEL, QUEUE_PRIORITY_LABEL


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
    """Return variables as a container names them, those without a value left out."""
    return [
        {"name": name, "valueFrom": {"secretKeyRef": asdict(value)}}
        if isinstance(value, SecretKey)
        else {"name": name, "value": value}
        for name, value in values.items()
        if value is not None
    ]
