"""The Job of an agent: its task, its volumes; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

from deployer.agent.pod import NAMES_VARIABLE
from deployer.agent.settings import (
    AGENTS_FOLDER_VARIABLE,
    CHECKPOINTS_VARIABLE,
    GRACE_VARIABLE,
    KEEP_VARIABLE,
    KEPT_BY_WANDB,
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    NAME_VARIABLE,
    OUTPUTS_VARIABLE,
    SWEEP_PATH_VARIABLE,
    TOKEN_FILE_VARIABLE,
)
from deployer.agent.wandb_install import INSTALL_VARIABLE
from deployer.config.document import FILE_NAME
from deployer.config.kubernetes import (
    CHECKPOINTS,
    CHECKPOINTS_PATH,
    OUTPUTS_FOLDER,
    Amount,
    ClusterConfig,
    SecretKey,
    Volume,
)
from deployer.errors import ConfigError
from deployer.executors.kubernetes.manifests.overlay import (
    REMOVED,
    ReplacedList,
    build_identity,
    build_queue_labels,
    list_variables,
    overlay,
    without_none,
)
from deployer.kube.objects import (
    AGENT_LABEL,
    AGENTS_ANNOTATION,
    QUEUE_LABEL,
    QUEUE_LIMIT_LABEL,
    SWEEP_PATH_ANNOTATION,
    Manifest,
    build_labels,
    build_name,
    read_quantity,
    sweep_id,
)

SUPERVISOR = "deployer-supervisor"
CODE = "deployer-code"
KEY = "deployer-key"
KEY_FILE = "key"
TOKEN_FILE = "token"  # replaces the key if agents use a service account
SHARED_MEMORY = "shared-memory"
CONTAINER = "agent"
SUPERVISOR_FOLDER = "/deployer/supervisor"
SUPERVISOR_PATH = f"{SUPERVISOR_FOLDER}/agent.zip"
TOKEN_PATH = f"/deployer/key/{TOKEN_FILE}"
CODE_VARIABLES = ("DEPLOYER_CODE_ARCHIVE", "DEPLOYER_CODE_FOLDER")
# Subtracted from the pod's grace period: a run that ignores the interrupt is terminated, then
# killed.
CLEARING_SECONDS = 10
POD_SOURCES = frozenset({"emptyDir", "ephemeral"})  # volumes that are deleted with their pod
POD_GRACE_SECONDS = 30  # Kubernetes' own default


@dataclass(frozen=True)
class AgentTask:
    """A pod's agents, and the objects they need; `code` is empty if the image's code runs.

    `agents` are their names, each with its key in the Secret; the first names the Job. Without a
    `secret_name` they log in by a token of their service account. `code` names the ConfigMaps of
    the archive's parts, `claims` the claim of each NFS volume. The Job ends after `max_seconds`, if
    not None, whatever its agents do.
    """

    agents: tuple[tuple[str, str], ...]
    sweep_path: str
    base_url: str
    environment: tuple[tuple[str, str], ...]
    secret_name: str
    supervisor: str
    code: tuple[str, ...]
    claims: Mapping[str, str]
    avoided_nodes: tuple[str, ...] = ()
    max_seconds: float | None = None

    @property
    def name(self) -> str:
        return self.agents[0][0]

    @property
    def secret_key(self) -> str:
        return self.agents[0][1]

    @property
    def is_pack(self) -> bool:
        return len(self.agents) > 1


def build_volumes(
    pod: Manifest, container: Manifest, own_pod: Manifest, task: AgentTask, cluster: ClusterConfig
) -> tuple[list[Manifest], list[Manifest]]:
    """Return the volumes of an agent's pod, and its container's mounts.

    The template's mounts replace ours of the same name or path, and those of deployer.yaml replace
    both. A volume without a mount is left out.
    """
    template = container.get("volumeMounts") or []
    users = [_build_mount(volume) for volume in cluster.volumes]
    added = [
        mount
        for mount in own_pod["containers"][0]["volumeMounts"]
        if not _meets(mount, template)
        and (mount["name"] != SHARED_MEMORY or cluster.shared_memory is not None)
    ]
    kept = [
        mount
        for mount in (*template, *added)
        if not _meets(mount, users) and (mount["name"] != CODE or task.code)
    ]
    others = [
        mount
        for one in (*pod["containers"], *(pod.get("initContainers") or ()))
        if one is not container
        for mount in one.get("volumeMounts") or ()
    ]
    gone = _list_names([*template, *added]) - _list_names([*kept, *others])
    ours = [volume for volume in own_pod["volumes"] if volume["name"] in _list_names(added)]
    volumes = [
        _fill(volume, task, cluster)
        for volume in overlay(pod.get("volumes"), ours, "volumes")
        if volume["name"] not in gone
    ]
    added_by_user = [_build_volume(volume, task.claims) for volume in cluster.volumes]
    return overlay(volumes, added_by_user, "volumes"), [*kept, *users]


def _meets(mount: Manifest, others: Sequence[Manifest]) -> bool:
    return any(mount[key] == other[key] for other in others for key in ("name", "mountPath"))


def _list_names(items: Iterable[Manifest]) -> set[str]:
    return {item["name"] for item in items}


def _fill(volume: Manifest, task: AgentTask, cluster: ClusterConfig) -> Manifest:
    """Return a volume unchanged, or filled if it is one of ours.

    With several agents, the name of each key file has a number. The files of several code
    ConfigMaps share one folder.
    """
    name = volume["name"]
    if name == SUPERVISOR:
        return volume | {"configMap": {"name": task.supervisor}}
    if name == CODE and len(task.code) == 1:
        return volume | {"configMap": {"name": task.code[0]}}
    if name == CODE and task.code:
        maps = [{"configMap": {"name": one}} for one in task.code]
        return {"name": name, "projected": {"sources": maps}}
    if name == KEY and not task.secret_name:
        token = {"path": TOKEN_FILE, "audience": cluster.identity_audience}
        return {"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}}
    if name == KEY:
        keys = [(task.secret_key, KEY_FILE)]
        if task.is_pack:
            keys = [(key, f"{KEY_FILE}-{i}") for i, (_, key) in enumerate(task.agents, 1)]
        items = [{"key": key, "path": path} for key, path in keys]
        secret = {"secretName": task.secret_name, "items": items}
        return volume | {"secret": volume.get("secret", {}) | secret}
    if name == SHARED_MEMORY and "emptyDir" in volume:
        return dict(overlay(volume, {"emptyDir": {"sizeLimit": cluster.shared_memory}}))
    return volume


def _build_mount(volume: Volume) -> Manifest:
    mount = {"name": volume.name, "mountPath": volume.path}
    return mount | without_none(
        {"readOnly": volume.read_only or None, "subPath": volume.sub_path or None}
    )


def _build_volume(volume: Volume, claims: Mapping[str, str]) -> Manifest:
    source: Manifest
    if claim := volume.pvc or claims.get(volume.name):
        source = {"persistentVolumeClaim": {"claimName": claim}}
    elif volume.nfs:
        source = {"nfs": {"server": volume.nfs.server, "path": volume.nfs.path}}
    elif volume.config_map:
        source = {"configMap": {"name": volume.config_map}}
    elif volume.secret:
        source = {"secret": {"secretName": volume.secret}}
    else:
        assert volume.empty_dir is not None
        medium = "Memory" if volume.empty_dir.memory else None
        source = {"emptyDir": without_none({"medium": medium, "sizeLimit": volume.empty_dir.size})}
    return {"name": volume.name, **source}


def build_job(
    template: Manifest, own: Manifest, task: AgentTask, cluster: ClusterConfig
) -> Manifest:
    """Return the Job of a pod's agents, built from a template with a container for them.

    `own` is k8s/agent.yaml. It provides what a user's template lacks: the supervisor's volumes and
    environment.
    """
    name = build_name(task.name)
    generated = cluster.generate_name or "generateName" in (template.get("metadata") or {})
    labels = {**cluster.labels, **build_labels(CONTAINER, task.sweep_path, task.name)}
    annotations = {
        **cluster.annotations,
        SWEEP_PATH_ANNOTATION: task.sweep_path,
        AGENT_LABEL: task.name,
        AGENTS_ANNOTATION: _join_names(task) if task.is_pack else None,
    }
    limits = [
        one for one in (_count_seconds(cluster.max_time), task.max_seconds) if one is not None
    ]
    job: Manifest = overlay(
        template,
        {
            "metadata": {
                "name": REMOVED if generated else name,
                "generateName": f"{name}-" if generated else None,
                "namespace": cluster.namespace or REMOVED,
                "labels": {**labels, **build_queue_labels(cluster)},
                "annotations": annotations,
            },
            "spec": {
                # A higher count would start several agents with one identity.
                "completions": 1,
                "parallelism": 1,
                "ttlSecondsAfterFinished": _count_seconds(cluster.ttl),
                "activeDeadlineSeconds": max(1, round(min(limits))) if limits else None,
                "template": {
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": _build_pod(template, own, task, cluster),
                },
            },
        },
    )
    deadline = job["spec"].get("activeDeadlineSeconds")
    if QUEUE_LABEL in job["metadata"]["labels"] and deadline:
        # Kueue's own limit is a minute after the Job's deadline, so that the Job ends first and
        # reports why.
        job["metadata"]["labels"].setdefault(QUEUE_LIMIT_LABEL, str(deadline + 60))
    return job


def find_container(job: Manifest) -> Manifest | None:
    """Return the container named `agent`, or the only one; None if it is ambiguous."""
    containers: list[Manifest] = job["spec"]["template"]["spec"]["containers"]
    named = [one for one in containers if one.get("name") == CONTAINER]
    if named:
        return named[0]
    return containers[0] if len(containers) == 1 else None


def outlives_pod(volumes: Iterable[Manifest], mounts: Sequence[Manifest]) -> bool:
    """Return True if the volume of checkpoints and outputs stays when its pod is deleted."""
    path = _find_checkpoints(mounts)
    names = {mount["name"] for mount in mounts if mount["mountPath"].rstrip("/") == path}
    return any(one["name"] in names and not POD_SOURCES & one.keys() for one in volumes)


def _find_checkpoints(mounts: Sequence[Manifest]) -> str:
    paths = (mount["mountPath"].rstrip("/") for mount in mounts if mount["name"] == CHECKPOINTS)
    return next(paths, CHECKPOINTS_PATH)


def _join_names(task: AgentTask) -> str:
    return " ".join(name for name, _ in task.agents)


def _count_seconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration.total_seconds())


def _build_pod(
    template: Manifest, own: Manifest, task: AgentTask, cluster: ClusterConfig
) -> Manifest:
    pod, container = template["spec"]["template"]["spec"], find_container(template)
    assert container is not None  # templates.py has checked the template
    own_pod = own["spec"]["template"]["spec"]
    own_container = own_pod["containers"][0]
    volumes, mounts = build_volumes(pod, container, own_pod, task, cluster)
    checkpoints = _find_checkpoints(mounts)
    grace = _count_seconds(cluster.grace_period)
    if grace is None:
        grace = pod.get("terminationGracePeriodSeconds", POD_GRACE_SECONDS)
    keep = "" if outlives_pod(volumes, mounts) else KEPT_BY_WANDB
    # If a name occurs twice, the later one applies.
    environment = overlay(
        [*own_container["env"], *(container.get("env") or ())],
        list_variables(_build_variables(task, cluster, checkpoints, keep, grace)),
        "env",
    )
    gpu = cluster.gpu
    return {
        "volumes": ReplacedList(volumes),
        "containers": [
            {
                "name": container.get("name"),
                "env": ReplacedList(
                    one for one in environment if one["name"] not in _list_needless(task)
                ),
                "terminationMessagePolicy": container.get(
                    "terminationMessagePolicy", own_container["terminationMessagePolicy"]
                ),
                "volumeMounts": ReplacedList(mounts),
                "image": cluster.image,
                "imagePullPolicy": cluster.image_pull_policy,
                "workingDir": cluster.working_dir,
                "command": [cluster.python, SUPERVISOR_PATH],
                "args": REMOVED,
                "resources": _build_resources(container.get("resources") or {}, cluster),
            }
        ],
        "terminationGracePeriodSeconds": _count_seconds(cluster.grace_period),
        **build_identity(cluster),
        "priorityClassName": cluster.priority_class,
        "runtimeClassName": cluster.runtime_class,
        "hostIPC": cluster.host_ipc or None,
        "nodeSelector": {
            **({gpu.product_label: gpu.product or None} if gpu else {}),
            **cluster.node_selector,
        },
        "tolerations": [without_none(asdict(one)) for one in cluster.tolerations],
        "affinity": _avoid(pod, task.avoided_nodes),
    }


def _list_needless(task: AgentTask) -> Sequence[str]:
    of_key = () if task.secret_name else (KEY_VARIABLE, KEY_FILE_VARIABLE)
    return (*of_key, *(() if task.code else CODE_VARIABLES))


def _build_variables(
    task: AgentTask, cluster: ClusterConfig, checkpoints: str, keep: str, grace: int
) -> dict[str, str | SecretKey | None]:
    """Return the variables of an agent: the user's, and those reserved for deployer."""
    return {
        KEEP_VARIABLE: keep,
        **cluster.env,
        **cluster.secrets,
        **dict(task.environment),
        "WANDB_BASE_URL": task.base_url,
        **(
            {"WANDB_API_KEY": SecretKey(name=task.secret_name, key=task.secret_key)}
            if task.secret_name
            else {TOKEN_FILE_VARIABLE: TOKEN_PATH}
        ),
        SWEEP_PATH_VARIABLE: task.sweep_path,
        NAME_VARIABLE: task.name,
        AGENTS_FOLDER_VARIABLE: f"{checkpoints}/agents/{sweep_id(task.sweep_path)}",
        GRACE_VARIABLE: str(max(1, grace - CLEARING_SECONDS)),
        CHECKPOINTS_VARIABLE: checkpoints,
        OUTPUTS_VARIABLE: f"{checkpoints}/{OUTPUTS_FOLDER}",
        **({NAMES_VARIABLE: _join_names(task)} if task.is_pack else {}),
        **({INSTALL_VARIABLE: "1"} if cluster.install_wandb else {}),
    }


def _build_resources(resources: Manifest, cluster: ClusterConfig) -> Manifest:
    """Return a container's resources; GPUs replace those of its template."""
    gpu = cluster.gpu
    amounts = {"cpu": cluster.cpu, "memory": cluster.memory}
    wanted = {name: amount for name, amount in amounts.items() if amount}
    for name, amount in wanted.items():
        _check_amount(name, amount)
    listed = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    replaced = {
        name: REMOVED
        for name in listed
        if gpu and (name == gpu.resource or name.startswith("nvidia.com/"))
    }
    return {
        "requests": {**replaced, **{name: one.request for name, one in wanted.items()}},
        "limits": {
            **replaced,
            **{name: one.limit for name, one in wanted.items()},
            **({gpu.resource: str(gpu.count)} if gpu and gpu.count else {}),
        },
    }


def _check_amount(name: str, amount: Amount) -> None:
    """Refuse what the API server would refuse: "must be less than or equal to %s limit"."""
    if read_quantity(amount.request) > read_quantity(amount.limit):
        said = f"the request {amount.request} is above the limit {amount.limit}"
        hint = f"{name}: {{request: {amount.limit}, limit: {amount.limit}}}"
        raise ConfigError(f"{FILE_NAME}: kubernetes.{name}", said, hint)


def _avoid(pod: Manifest, nodes: Sequence[str]) -> Manifest:
    """Return the affinity that keeps a pod off nodes, in addition to its template's terms.

    It matches the node's name, because the label of the host name may differ.
    """
    if not nodes:
        return {}
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    refused = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    # A node has to match one of the terms, so each of them must exclude these nodes.
    terms = [
        {**term, "matchFields": [*term.get("matchFields", ()), *refused]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
