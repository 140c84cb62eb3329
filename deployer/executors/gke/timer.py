"""The timer inside our cluster that deletes it once it is idle (infra/timer)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from deployer.config.credentials import UNKNOWN_OWNER, Owner
from deployer.config.paths import find_packaged
from deployer.errors import CloudError
from deployer.executors.gke import idle_timer
from deployer.executors.kubernetes.manifests.templates import load_documents
from deployer.gke.api.client import Gke
from deployer.gke.api.compute import list_permissions
from deployer.gke.api.model import EXPIRES_LABEL, CloudCluster
from deployer.gke.specification import MANAGED_BY, OWN_PREFIX, ClusterSpec, cluster_labels
from deployer.kube.client import Kube
from deployer.kube.objects import CRON_JOB, Manifest, build_labels, stamp_owner
from deployer.text import format_seconds

NAMESPACE = idle_timer.OWN
NAME = COMPONENT = "idle-timer"
ROLE_NAME = "deployer-idle-timer"  # in the cluster
ROLE = "deployerIdleTimer"  # in the project
PERMISSIONS = ("container.clusters.delete", "compute.disks.get", "compute.disks.setLabels")


def build_timer(
    spec: ClusterSpec,
    project: str,
    location: str,
    since: float,
    labels: Mapping[str, str] | None = None,
    owner: Owner = UNKNOWN_OWNER,
) -> tuple[Manifest, ...]:
    """Return the timer's manifests in the order of their application; none without a timer.

    It counts from `since`, in seconds since the epoch. Disks with results get our labels from the
    cluster's `labels`; `owner` is the owner of those results.
    """
    if spec.delete_when_idle is None:
        return ()
    manifests = load_documents(find_packaged("infra/timer") / "timer.yaml")
    *_, program, cron_job = manifests
    program["data"] = {"idle_timer.py": Path(idle_timer.__file__).read_text(encoding="utf-8")}
    pod = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    settings = {
        "CLUSTER": f"projects/{project}/locations/{location}/clusters/{spec.name}",
        "LABELS": json.dumps(_pick_own(labels or cluster_labels(spec, UNKNOWN_OWNER))),
        "OWNER": owner.id,
        "IDLE_SECONDS": f"{spec.delete_when_idle.total_seconds():.0f}",
        "SINCE": f"{since:.0f}",
    }
    pod["containers"][0]["env"] = [{"name": k, "value": v} for k, v in settings.items()]
    job = cron_job["spec"]["jobTemplate"]
    for one in (*manifests, job, job["spec"]["template"]):
        metadata = one.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), **build_labels(COMPONENT)}
    return tuple(stamp_owner(one, owner) for one in manifests)


def _pick_own(labels: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(labels.items())
        if name == MANAGED_BY or (name.startswith(OWN_PREFIX) and name != EXPIRES_LABEL)
    }


def ensure_timer(
    kube: Kube, spec: ClusterSpec, project: str, cluster: CloudCluster, now: float
) -> Sequence[str]:
    """Set the timer as specified, starting now, or remove it; return what was done.

    Raises KubeError.
    """
    kube = kube.in_namespace(NAMESPACE)
    if spec.delete_when_idle is None:
        if kube.get(CRON_JOB, NAME) is None:
            return ()
        kube.delete(CRON_JOB, NAME)
        return ("removed the timer that deletes the idle cluster",)
    labels = cluster.labels
    for manifest in build_timer(spec, project, cluster.location, now, labels, kube.owner):
        kube.apply(manifest)
    limit = format_seconds(spec.delete_when_idle.total_seconds())
    return (
        f"a timer in the cluster deletes it {limit} after its last pod has ended, and keeps its "
        "backend's disk",
    )


def check_role(gke: Gke, spec: ClusterSpec) -> Sequence[str]:
    """Return a line about the timer's role, and the commands that grant it if missing."""
    if spec.delete_when_idle is None:
        return ()
    try:
        held = list_permissions(gke, _end_principal(gke.project), _build_condition(spec))
    except CloudError as error:
        said = f"could not check whether the timer may delete the cluster: {error.message}"
    else:
        missing = [one for one in PERMISSIONS if one not in held]
        if not missing:
            return ("the timer may delete the cluster: the project's policy says so",)
        said = f"the timer may not delete the cluster: it lacks {', '.join(missing)}"
    grant = (f"  {command}" for command in describe_grant(spec, gke.project))
    return (f"{said}; grant its role once with these commands:", *grant)


def describe_grant(spec: ClusterSpec, project: str) -> tuple[str, ...]:
    """Return the commands that grant the timer its role on the cluster and the claims' disks."""
    number = f"$(gcloud projects describe {project} --format='value(projectNumber)')"
    who = (
        f"principal://iam.googleapis.com/projects/{number}/locations/global"
        f"{_end_principal(project)}"
    )
    return (
        f"gcloud iam roles create {ROLE} --project {project} --permissions {','.join(PERMISSIONS)}",
        f"gcloud projects add-iam-policy-binding {project} --role projects/{project}/roles/{ROLE} "
        f"--member \"{who}\" --condition 'title={spec.name},expression={_build_condition(spec)}'",
    )


def _end_principal(project: str) -> str:
    return f"/workloadIdentityPools/{project}.svc.id.goog/subject/ns/{NAMESPACE}/sa/{NAME}"


def _build_condition(spec: ClusterSpec) -> str:
    """Return the condition: this cluster, and disks that Kubernetes created for claims.

    https://cloud.google.com/iam/docs/conditions-resource-attributes
    """
    return (
        '(resource.type == "container.googleapis.com/Cluster" && '
        f'resource.name.endsWith("/clusters/{spec.name}")) || '
        '(resource.type == "compute.googleapis.com/Disk" && '
        'resource.name.extract("/disks/{name}").startsWith("pvc-"))'
    )
