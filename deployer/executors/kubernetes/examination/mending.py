"""What the doctor mends: it makes what is missing, and changes or deletes nothing."""

from __future__ import annotations

from deployer.config.project import Project
from deployer.errors import KubeError
from deployer.executors.findings import Finding
from deployer.executors.kubernetes.keys.key_secret import WANDB_SECRET, create_secret
from deployer.executors.target import Tell
from deployer.kube.client import Kube
from deployer.kube.kinds import NAMESPACE


def mend(kube: Kube, project: Project, finding: Finding, tell: Tell) -> bool:
    """Make the namespace, or the Secret with the key; tell which, and return whether it was made.

    What the cluster refuses is told, too.
    """
    try:
        if finding.code == "namespace":
            return _make_namespace(kube, tell)
        if finding.code == "secret" and finding.subject == f"Secret {WANDB_SECRET}":
            return _make_secret(kube, project, tell)
    except KubeError as error:
        tell(error.message)
    return False


def _make_namespace(kube: Kube, tell: Tell) -> bool:
    name = kube.namespace
    made = kube.create_once(
        {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": {"name": name}}
    )
    if made:
        tell(f"created namespace {name}")
    return made


def _make_secret(kube: Kube, project: Project, tell: Tell) -> bool:
    if project.embedded or not project.key or not create_secret(kube, project.key, project.wandb):
        return False
    tell(f"created Secret {WANDB_SECRET} with the key from {project.key_source}")
    return True
