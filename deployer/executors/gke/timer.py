"""The timer inside a cluster of ours that deletes it once nobody uses it (infra/timer)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deployer.config.paths import find_packaged
from deployer.executors.gke import idle_timer
from deployer.executors.kubernetes.manifests.templates import load_documents
from deployer.gke.specification.spec import ClusterSpec
from deployer.kube.client import Kube
from deployer.kube.kinds import Kind, Manifest
from deployer.text import format_seconds

NAMESPACE = idle_timer.OWN
CRON_JOB = Kind("batch/v1", "CronJob", "cronjobs")
NAME = "idle-timer"
ROLE_NAME = "deployer-idle-timer"  # in the cluster
ROLE = "deployerIdleTimer"  # in the project
PERMISSION = "container.clusters.delete"


def build_timer(
    spec: ClusterSpec, project: str, location: str, since: float
) -> tuple[Manifest, ...]:
    """Return the timer's manifests in the order in which they are applied; none without one.

    It counts from `since`, in seconds since the epoch.
    """
    if spec.delete_when_idle is None:
        return ()
    manifests = load_documents(find_packaged("infra/timer") / "timer.yaml")
    *_, program, cron_job = manifests
    program["data"] = {"idle_timer.py": Path(idle_timer.__file__).read_text(encoding="utf-8")}
    pod = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    settings = {
        "CLUSTER": f"projects/{project}/locations/{location}/clusters/{spec.name}",
        "IDLE_SECONDS": f"{spec.delete_when_idle.total_seconds():.0f}",
        "SINCE": f"{since:.0f}",
    }
    pod["containers"][0]["env"] = [{"name": k, "value": v} for k, v in settings.items()]
    return tuple(manifests)


def ensure_timer(
    kube: Kube, spec: ClusterSpec, project: str, location: str, now: float
) -> Sequence[str]:
    """Set the timer as the specification says, from now on, or take it away; say what was done.

    Raises KubeError.
    """
    kube = kube.in_namespace(NAMESPACE)
    if spec.delete_when_idle is None:
        if kube.get(CRON_JOB, NAME) is None:
            return ()
        kube.delete(CRON_JOB, NAME)
        return ("the timer that would delete the idle cluster is taken away",)
    for manifest in build_timer(spec, project, location, now):
        kube.apply(manifest)
    limit = format_seconds(spec.delete_when_idle.total_seconds())
    return (
        f"a timer in the cluster deletes it {limit} after its last pod has ended, if it holds no "
        "volume and may do so: see deployer gke plan",
    )


def describe_grant(spec: ClusterSpec, project: str) -> tuple[str, ...]:
    """Return the commands that give the timer its only right, for the cluster alone."""
    number = f"$(gcloud projects describe {project} --format='value(projectNumber)')"
    who = (
        f"principal://iam.googleapis.com/projects/{number}/locations/global/workloadIdentityPools/"
        f"{project}.svc.id.goog/subject/ns/{NAMESPACE}/sa/{NAME}"
    )
    # https://cloud.google.com/iam/docs/conditions-resource-attributes
    condition = (
        'resource.type == "container.googleapis.com/Cluster" && '
        f'resource.name.endsWith("/clusters/{spec.name}")'
    )
    return (
        f"gcloud iam roles create {ROLE} --project {project} --permissions {PERMISSION}",
        f"gcloud projects add-iam-policy-binding {project} --role projects/{project}/roles/{ROLE} "
        f"--member \"{who}\" --condition 'title={spec.name},expression={condition}'",
    )
