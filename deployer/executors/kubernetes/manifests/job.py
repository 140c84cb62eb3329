"""An agent's Job: a copy of a template, with the fields of owned.py set; pure."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict

from deployer.agent.pack import NAMES_VARIABLE
from deployer.agent.settings import (
    CHECKPOINTS_VARIABLE,
    KEEP_VARIABLE,
    KEPT_BY_WANDB,
    OUTPUTS_VARIABLE,
)
from deployer.agent.wandb_install import REQUIREMENTS_VARIABLE
from deployer.config.sections.kubernetes import SECTION, ClusterConfig
from deployer.config.sections.kubernetes_parts import (
    CHECKPOINTS,
    CHECKPOINTS_PATH,
    OUTPUTS_FOLDER,
    Amount,
    Gpu,
)
from deployer.errors import ConfigError
from deployer.executors.kubernetes.manifests.fields import (
    Manifest,
    merged,
    set_namespace,
    update,
    without_none,
)
from deployer.executors.kubernetes.manifests.mounts import graft, set_volumes
from deployer.executors.kubernetes.manifests.pod import set_identity, set_image, set_queue
from deployer.executors.kubernetes.manifests.task import AgentTask
from deployer.kube.names import (
    AGENT_LABEL,
    AGENTS_ANNOTATION,
    ASKED_ANNOTATION,
    QUEUE_LABEL,
    QUEUE_LIMIT_LABEL,
    SWEEP_PATH_ANNOTATION,
    build_labels,
    build_name,
    sweep_id,
)
from deployer.kube.quantities import read_quantity

CONTAINER = "agent"
SUPERVISOR_FOLDER = "/deployer/supervisor"
SUPERVISOR_PATH = f"{SUPERVISOR_FOLDER}/agent.zip"
WANDB_REQUIREMENTS = "wandb-requirements.txt"  # beside the supervisor
CODE_VARIABLES = ("DEPLOYER_CODE_ARCHIVE", "DEPLOYER_CODE_FOLDER")
# Kept back from the pod's grace: what ignores the interrupt is terminated, then killed.
CLEARING_SECONDS = 10
POD_SOURCES = frozenset({"emptyDir", "ephemeral"})  # volumes that are deleted with their pod
POD_GRACE_SECONDS = 30  # Kubernetes' own default


def build_job(
    template: Manifest, own: Manifest, task: AgentTask, cluster: ClusterConfig
) -> Manifest:
    """Return the Job of a pod's agents from a template that has a container for them.

    `own` is k8s/agent.yaml: what a user's template lacks (the supervisor's volumes and
    environment) is taken from there.
    """
    job = copy.deepcopy(template)
    pod = job["spec"]["template"]["spec"]
    container = find_container(job)
    assert container is not None  # templates.py has checked the template
    own_pod = copy.deepcopy(own["spec"]["template"]["spec"])
    graft(pod, container, own_pod, cluster)
    _set_metadata(job, task, cluster)
    _set_job(job["spec"], task, cluster)
    _limit_in_queue(job)
    _set_pod(pod, cluster)
    _avoid(pod, task.avoided_nodes)
    set_volumes(pod, container, task, cluster)
    _set_container(pod, container, task, cluster)
    _set_environment(pod, container, task, cluster)
    _set_resources(container, cluster)
    return job


def find_container(job: Manifest) -> Manifest | None:
    """Return the container named `agent`, or the only one; None if it cannot be told."""
    containers: list[Manifest] = job["spec"]["template"]["spec"]["containers"]
    named = [one for one in containers if one.get("name") == CONTAINER]
    if named:
        return named[0]
    return containers[0] if len(containers) == 1 else None


def _set_metadata(job: Manifest, task: AgentTask, cluster: ClusterConfig) -> None:
    metadata = job.setdefault("metadata", {})
    name = build_name(task.name)
    if cluster.generate_name or "generateName" in metadata:
        metadata.pop("name", None)
        metadata["generateName"] = f"{name}-"
    else:
        metadata["name"] = name
    set_namespace(metadata, cluster.namespace)
    labels = {**cluster.labels, **build_labels(CONTAINER, task.sweep_path, task.name)}
    annotations = {
        **cluster.annotations,
        SWEEP_PATH_ANNOTATION: task.sweep_path,
        AGENT_LABEL: task.name,
    }
    if task.is_pack:
        annotations[AGENTS_ANNOTATION] = _join_names(task)
    for target in (metadata, job["spec"]["template"].setdefault("metadata", {})):
        update(target, "labels", labels)
        update(target, "annotations", annotations)
    update(metadata, "annotations", {ASKED_ANNOTATION: str(task.asked)})
    set_queue(metadata, cluster)


def _set_job(spec: Manifest, task: AgentTask, cluster: ClusterConfig) -> None:
    # Another count would be several agents with one identity.
    spec["completions"] = spec["parallelism"] = 1
    if cluster.ttl is not None:
        spec["ttlSecondsAfterFinished"] = round(cluster.ttl.total_seconds())
    of_file = None if cluster.max_time is None else cluster.max_time.total_seconds()
    limits = [limit for limit in (of_file, task.max_seconds) if limit is not None]
    if limits:
        spec["activeDeadlineSeconds"] = max(1, round(min(limits)))


def _limit_in_queue(job: Manifest) -> None:
    """Set Kueue's own limit a minute after the Job's deadline, which ends the Job and says why."""
    labels = job["metadata"]["labels"]
    deadline = job["spec"].get("activeDeadlineSeconds")
    if QUEUE_LABEL in labels and deadline:
        labels.setdefault(QUEUE_LIMIT_LABEL, str(deadline + 60))


def _set_pod(pod: Manifest, cluster: ClusterConfig) -> None:
    if cluster.grace_period is not None:
        pod["terminationGracePeriodSeconds"] = round(cluster.grace_period.total_seconds())
    set_identity(pod, cluster)
    if cluster.priority_class is not None:
        pod["priorityClassName"] = cluster.priority_class
    if cluster.runtime_class is not None:
        pod["runtimeClassName"] = cluster.runtime_class
    if cluster.host_ipc:
        pod["hostIPC"] = True
    product = cluster.gpu.product if cluster.gpu else None
    chosen = {cluster.gpu.product_label: product} if cluster.gpu and product else {}
    update(pod, "nodeSelector", {**chosen, **cluster.node_selector})
    if cluster.tolerations:
        added = [without_none(asdict(one)) for one in cluster.tolerations]
        pod["tolerations"] = [*pod.get("tolerations", ()), *added]


def _avoid(pod: Manifest, nodes: Sequence[str]) -> None:
    """Keep a pod off nodes, whatever else is wanted of its node.

    By the node's name, which is what is known of it: its host name's label may differ.
    """
    if not nodes:
        return
    refused = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    affinity = pod["affinity"] = dict(pod.get("affinity") or {})
    wanted = affinity["nodeAffinity"] = dict(affinity.get("nodeAffinity") or {})
    required = wanted.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # A node has to match one of the terms, so that each of them must refuse.
    terms = required.get("nodeSelectorTerms") or [{}]
    wanted["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [
            {**term, "matchFields": [*term.get("matchFields", ()), *refused]} for term in terms
        ]
    }


def _set_container(
    pod: Manifest, container: Manifest, task: AgentTask, cluster: ClusterConfig
) -> None:
    set_image(container, cluster.image, cluster)
    if cluster.working_dir is not None:
        container["workingDir"] = cluster.working_dir
    grace = pod.get("terminationGracePeriodSeconds", POD_GRACE_SECONDS)
    container["command"] = [cluster.python, SUPERVISOR_PATH]
    container["args"] = [
        task.sweep_path,
        f"--name={task.name}",
        f"--folder={_checkpoints(container)}/agents/{sweep_id(task.sweep_path)}/{task.name}",
        f"--grace-seconds={max(1, grace - CLEARING_SECONDS)}",
    ]


def _join_names(task: AgentTask) -> str:
    return " ".join(name for name, _ in task.agents)


def _checkpoints(container: Manifest) -> str:
    mounts = container["volumeMounts"]
    paths = (m["mountPath"].rstrip("/") for m in mounts if m["name"] == CHECKPOINTS)
    return next(paths, CHECKPOINTS_PATH)


def outlives_pod(pod: Manifest, container: Manifest) -> bool:
    """Return True if the volume of checkpoints and outputs stays when its pod is deleted."""
    path = _checkpoints(container)
    names = {m["name"] for m in container["volumeMounts"] if m["mountPath"].rstrip("/") == path}
    return any(one["name"] in names and not POD_SOURCES & one.keys() for one in pod["volumes"])


def _set_environment(
    pod: Manifest, container: Manifest, task: AgentTask, cluster: ClusterConfig
) -> None:
    users = [
        *({"name": name, "value": value} for name, value in cluster.env.items()),
        *(_refer(name, key.name, key.key) for name, key in cluster.secrets.items()),
        *({"name": name, "value": value} for name, value in task.environment),
    ]
    path = f"{SUPERVISOR_FOLDER}/{WANDB_REQUIREMENTS}"
    requirements = {"name": REQUIREMENTS_VARIABLE, "value": path}
    keep = {"name": KEEP_VARIABLE, "value": "" if outlives_pod(pod, container) else KEPT_BY_WANDB}
    ours = [
        {"name": "WANDB_BASE_URL", "value": task.base_url},
        _refer("WANDB_API_KEY", task.secret_name, task.secret_key),
        {"name": CHECKPOINTS_VARIABLE, "value": _checkpoints(container)},
        {"name": OUTPUTS_VARIABLE, "value": f"{_checkpoints(container)}/{OUTPUTS_FOLDER}"},
        *([] if {KEEP_VARIABLE} & {one["name"] for one in users} else [keep]),
        *([{"name": NAMES_VARIABLE, "value": _join_names(task)}] if task.is_pack else []),
        *([requirements] if cluster.install_wandb else []),
    ]
    left_out = () if task.code else CODE_VARIABLES
    wanted = merged(merged(container["env"], users), ours)
    container["env"] = [variable for variable in wanted if variable["name"] not in left_out]


def _refer(variable: str, secret: str, key: str) -> Manifest:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _set_resources(container: Manifest, cluster: ClusterConfig) -> None:
    resources = dict(container.get("resources") or {})
    for name, amount in (("cpu", cluster.cpu), ("memory", cluster.memory)):
        if amount:
            _check_amount(name, amount)
            update(resources, "requests", {name: amount.request})
            update(resources, "limits", {name: amount.limit})
    if cluster.gpu is not None:
        _set_gpus(resources, cluster.gpu)
    update(container, "resources", resources)


def _check_amount(name: str, amount: Amount) -> None:
    """Refuse what the API server would: "must be less than or equal to %s limit"."""
    if read_quantity(amount.request) > read_quantity(amount.limit):
        said = f"the request {amount.request} is above the limit {amount.limit}"
        hint = f"{name}: {{request: {amount.limit}, limit: {amount.limit}}}"
        raise ConfigError(SECTION.place_of((name,)), said, hint)


def _set_gpus(resources: Manifest, gpu: Gpu) -> None:
    for kind in ("requests", "limits"):
        listed = resources.get(kind, {})
        for name in [n for n in listed if n == gpu.resource or n.startswith("nvidia.com/")]:
            del listed[name]
    if gpu.count:
        update(resources, "limits", {gpu.resource: str(gpu.count)})
