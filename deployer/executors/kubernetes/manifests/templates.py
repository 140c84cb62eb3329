"""The templates of manifests: ours, the user's, and the checks of the latter; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deployer.config.kubernetes import ClusterConfig
from deployer.config.paths import find_packaged
from deployer.errors import ConfigError
from deployer.executors.kubernetes.manifests.job import CONTAINER, find_container, outlives_pod
from deployer.kube.objects import QUEUE_LABEL, QUEUE_PRIORITY_LABEL, Manifest

# Variables of the SDK that would break a sweep's run; WANDB_MODE may be `online`.
OF_OTHER_RUNS = ("WANDB_PROJECT", "WANDB_ENTITY", "WANDB_MODE", "WANDB_RUN_ID", "WANDB_SWEEP_ID")
SPOT = re.compile(r"(?<!non-)\b(spot|preemptible)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Templates:
    """The manifests of k8s/.

    `template` and `others` come from the user's file.

    `others` is everything in that file except the Job; it is applied unchanged and never deleted.
    """

    agent: Manifest
    supervisor: Manifest
    code: Manifest
    volume: Manifest
    claim: Manifest
    template: Manifest | None = None
    others: tuple[Manifest, ...] = ()


def load_templates(template: Path | None = None) -> Templates:
    """Read k8s/*.yaml and the user's template, if any; raises ConfigError for the latter."""
    folder = find_folder()
    job, others = _load_template(template) if template else (None, ())
    volume, claim = load_documents(folder / "nfs.yaml")
    return Templates(
        **{name: _load_one(folder, name) for name in ("agent", "supervisor", "code")},
        volume=volume,
        claim=claim,
        template=job,
        others=others,
    )


def find_template_image(cluster: ClusterConfig, folder: Path) -> str | None:
    """Return the agent's image in the user's template; raises ConfigError."""
    job = _load_template(folder / cluster.template)[0] if cluster.template else None
    container = find_container(job) if job else None
    return container.get("image") if container else None


def warn_about_variables(job: Manifest) -> str:
    """Return a warning about a user's variable that takes runs out of their sweep."""
    container = find_container(job) or {}
    named = {one["name"]: one.get("value") for one in container.get("env") or ()}
    wrong = [name for name in OF_OTHER_RUNS if named.get(name, "online") != "online"]
    said = "takes runs out of their sweep: remove it from the agents' environment"
    return f"{wrong[0]} {said}" if wrong else ""


def find_folder() -> Path:
    return find_packaged("k8s")


def load_documents(path: Path) -> list[Manifest]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one is not None]


def _load_one(folder: Path, name: str) -> Manifest:
    return load_documents(folder / f"{name}.yaml")[0]


def _load_template(path: Path) -> tuple[Manifest, tuple[Manifest, ...]]:
    place = f"{path}"
    try:
        documents = load_documents(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(place, f"cannot be read: {error}") from error
    manifests = [one for document in documents for one in _flatten(document)]
    if not all(isinstance(one, dict) and "kind" in one for one in manifests):
        raise ConfigError(place, "is not a Kubernetes manifest", "kubectl explain job")
    jobs = [one for one in manifests if one["kind"] == "Job"]
    if len(jobs) != 1:
        said = f"has {len(jobs)} Jobs" if jobs else "has no Job"
        raise ConfigError(place, said, "a template needs exactly one Job, used for every agent")
    _check_job(place, jobs[0])
    return jobs[0], tuple(one for one in manifests if one is not jobs[0])


def _flatten(document: Any) -> Iterator[Any]:
    if isinstance(document, dict) and document.get("kind") == "List":
        yield from document.get("items") or ()
    else:
        yield document


def _check_job(place: str, job: Manifest) -> None:
    try:
        container = find_container(job)
    except (KeyError, TypeError, AttributeError) as error:
        said = "the Job has no spec.template.spec.containers"
        raise ConfigError(place, said, "kubectl explain job.spec.template.spec") from error
    if container is None:
        names = ", ".join(str(one.get("name")) for one in _containers(job)) or "none"
        said = f"which container runs the agent? The Job's containers: {names}"
        raise ConfigError(place, said, f"name one of them `{CONTAINER}`")


def _containers(job: Manifest) -> list[Manifest]:
    containers: list[Manifest] = job["spec"]["template"]["spec"]["containers"]
    return containers


def warn_about_spot(job: Manifest, pools: str = "") -> str:
    """Return a warning if preemption restarts runs from nothing; empty if it does not.

    `pools` names the spot pools of the pods, if more is known than the Job says.
    """
    pod, container = job["spec"]["template"]["spec"], find_container(job)
    spot = pools or next((word for word in _list_words(job, pod) if SPOT.search(word)), "")
    if not spot or container is None or outlives_pod(pod["volumes"], container["volumeMounts"]):
        return ""
    return (
        f"agents run on spot nodes ({spot}) and no volume `checkpoints` outlives their pods: each "
        "preemption starts the run again from nothing; in deployer.yaml, under kubernetes:, "
        "volumes: [{name: checkpoints, pvc: CLAIM}] keeps the checkpoints"
    )


def _list_words(job: Manifest, pod: Manifest) -> Iterator[str]:
    """Yield the texts that select nodes: labels, taints, priority classes and queues."""
    chosen = (pod.get("nodeSelector") or {}).items()
    yield from (f"{key}={value}" for key, value in chosen if value != "false")
    for one in pod.get("tolerations") or ():
        yield f"{one.get('key', '')}={one.get('value', '')}".rstrip("=")
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for one in term.get("matchExpressions", ()):
            if one["operator"] in ("In", "Exists"):
                yield f"{one['key']}={','.join(one.get('values') or ())}".rstrip("=")
    yield pod.get("priorityClassName") or ""
    labels = job["metadata"].get("labels") or {}
    yield from (labels.get(name, "") for name in (QUEUE_LABEL, QUEUE_PRIORITY_LABEL))
