"""What the pods of agents, of data loaders and of the backend have alike; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.kubernetes_parts import SecretKey
from deployer.executors.kubernetes.manifests.fields import Manifest, merged, update, without_none
from deployer.kube.names import QUEUE_LABEL, QUEUE_PRIORITY_LABEL

POD = "spec.template.spec"


def list_common_fields(container: str) -> tuple[str, ...]:
    """Return the paths that Python sets in each pod; `container` is the name of its main one."""
    main = f"{POD}.containers[{container}]"
    return (
        "spec.template.metadata.labels",
        f"{POD}.serviceAccountName",
        f"{POD}.imagePullSecrets",
        f"{POD}.nodeSelector",
        f"{POD}.tolerations",
        f"{POD}.securityContext.runAsUser",
        f"{POD}.securityContext.fsGroup",
        f"{main}.image",
        f"{main}.command",
        f"{main}.env",
    )


def set_identity(pod: Manifest, cluster: ClusterConfig) -> None:
    """Set as whom a pod runs, and with which secrets its image is pulled."""
    if cluster.service_account is not None:
        pod["serviceAccountName"] = cluster.service_account
    if cluster.run_as_user is not None:
        update(pod, "securityContext", dict.fromkeys(("runAsUser", "fsGroup"), cluster.run_as_user))
    secrets = [{"name": name} for name in cluster.image_pull_secrets]
    if secrets:
        pod["imagePullSecrets"] = merged(pod.get("imagePullSecrets", ()), secrets)


def set_queue(metadata: Manifest, cluster: ClusterConfig) -> None:
    """Name the queue in which a Job waits, and its priority there."""
    named = {QUEUE_LABEL: cluster.queue, QUEUE_PRIORITY_LABEL: cluster.queue_priority}
    update(metadata, "labels", without_none(named))


def set_image(container: Manifest, image: str | None, cluster: ClusterConfig) -> None:
    """Set the image of a container, if one is named, and when it is pulled."""
    if image is not None:
        container["image"] = image
    if cluster.image_pull_policy is not None:
        container["imagePullPolicy"] = cluster.image_pull_policy


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
    return {QUEUE_LABEL: cluster.queue, QUEUE_PRIORITY_LABEL: cluster.queue_priority}


def list_variables(values: Mapping[str, str | SecretKey | None]) -> list[Manifest]:
    """Return variables as a container names them, those without a value left out."""
    return [
        {"name": name, "valueFrom": {"secretKeyRef": asdict(value)}}
        if isinstance(value, SecretKey)
        else {"name": name, "value": value}
        for name, value in values.items()
        if value is not None
    ]
