"""The section `kubernetes:` of deployer.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass

from deployer.config.check import (
    STRICT,
    Duration,
    Text,
    Value,
    at_least,
    matching,
    refuse,
    refuse_twice,
)
from deployer.config.image_reference import IMAGE, IMAGE_HINT

CHECKPOINTS = "checkpoints"
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"  # set by the device plugin's feature discovery
CHECKPOINTS_PATH = "/deployer/checkpoints"
OUTPUTS_FOLDER = "outputs"  # on the volume of checkpoints
# Volumes of k8s/agent.yaml that users cannot replace.
RESERVED_VOLUMES = (
    "deployer-supervisor",
    "deployer-code",
    "deployer-pod",
    "deployer-work",
    "shared-memory",
)
SOURCES = ("pvc", "nfs", "empty_dir", "config_map", "secret")
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|[KMGTPE]i|[MGTPE])?$"
NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
OBJECT = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
ABSOLUTE_PATH = r"^/[^:]*$"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_VALUE = rf"^({_LABEL_NAME})?$"
LABEL_KEY = rf"^([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}$"
LABEL_LETTERS = (
    "at most 63 letters, digits, dashes, dots and underscores; a letter or digit first and last"
)
Quantity = Annotated[Value, matching(QUANTITY, "write it as Kubernetes does: 500m, 2, 4Gi")]
Image = Annotated[str, matching(IMAGE, IMAGE_HINT)]
ObjectName = Annotated[str, matching(NAME, "small letters, digits and dashes, at most 63")]
# For names that are not part of an address.
LongName = Annotated[str, matching(OBJECT, "small letters, digits, dashes and dots")]
LabelKey = Annotated[str, matching(LABEL_KEY, f"a name, or DOMAIN/NAME: {LABEL_LETTERS}")]
LabelValue = Annotated[Value, matching(LABEL_VALUE, LABEL_LETTERS)]
AbsolutePath = Annotated[str, matching(ABSOLUTE_PATH, "write an absolute path")]
ONE_SOURCE = f"give exactly one of {', '.join(SOURCES)}"
MOST_PER_POD = 16


def count_to_gpu(value: object) -> object:
    given = value.get("count") if isinstance(value, dict) else value
    if isinstance(given, float):
        hint = "to share one: agents_per_pod: 2; for a slice: resource: nvidia.com/mig-1g.5gb"
        refuse("a pod cannot request a fraction of a GPU", hint)
    if isinstance(value, list) or (
        isinstance(value, dict) and isinstance(value.get("product"), list)
    ):
        hint = "write gpu: {count: 1, product: NAME}, or remove it and set node_selector"
        refuse("is a list, but all agents get one product", hint)
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


def _bare_empty_dir(value: object) -> object:
    return {} if value is None else value


def _plain_to_amount(value: object) -> object:
    """Read `cpu: 2` as `cpu: {request: 2, limit: 2}`."""
    return value if isinstance(value, dict | Amount) else {"request": value, "limit": value}


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Amount:
    """The guaranteed amount of a resource for a pod, and the maximum."""

    request: Quantity
    """The request: nodes reserve it, and quotas count it."""

    limit: Quantity
    """The limit: more memory kills the pod; more CPU is throttled."""


PlainOrAmount = Annotated[
    Amount, BeforeValidator(_plain_to_amount, json_schema_input_type=Quantity | Amount)
]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Gpu:
    """GPUs of each agent. `count` 0 asks for none."""

    count: Annotated[int, Field(ge=0)] = 1
    """The number of GPUs of each agent; 0 for none."""

    resource: LabelKey = "nvidia.com/gpu"
    """The device plugin's resource name, such as nvidia.com/mig-1g.5gb."""

    product: LabelValue | None = None
    """The GPU model, as nodes are labelled, such as NVIDIA-A100-SXM4-40GB; default: any."""

    product_label: LabelKey = GPU_PRODUCT_LABEL
    """The node label that holds the GPU model."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NfsFolder:
    """A folder of an NFS server, mounted as a PersistentVolume and a claim, or `inline`."""

    server: Text
    """The host name or address of the NFS server."""

    path: AbsolutePath
    """The exported folder."""

    inline: bool = False
    """Mount it in the pod itself, without a PersistentVolume and the right to create one. Pod
    Security forbids this at the level `restricted`.
    """


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EmptyDir:
    """A folder that is deleted with the pod; `memory` keeps it in memory."""

    size: Quantity | None = None
    """The size limit."""

    memory: bool = False
    """Keep it in memory; it counts towards the pod's memory."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Volume:
    """A volume from exactly one source.

    The name `checkpoints` replaces the folder that is deleted with the pod.
    """

    name: ObjectName
    """Its name; `checkpoints` replaces the pod's temporary checkpoint folder."""

    mount_path: AbsolutePath = ""
    """Where agents see it; only `checkpoints` has a default."""

    read_only: bool = False
    """Mount it read-only."""

    sub_path: Text | None = None
    """A folder inside the volume, mounted instead of its root."""

    pvc: LongName | None = None
    """An existing PersistentVolumeClaim, by name."""

    nfs: NfsFolder | None = None
    """A folder of an NFS server."""

    empty_dir: Annotated[EmptyDir | None, BeforeValidator(_bare_empty_dir)] = None
    """A new folder, deleted with the pod."""

    config_map: LongName | None = None
    """An existing ConfigMap, by name."""

    secret: LongName | None = None
    """An existing Secret, by name."""

    @property
    def path(self) -> str:
        return self.mount_path or CHECKPOINTS_PATH

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [source for source in SOURCES if getattr(self, source) is not None]
        if len(given) != 1:
            said = f"has {' and '.join(given)}" if given else "has no source"
            refuse(said, ONE_SOURCE)
        if self.name in RESERVED_VOLUMES:
            said = f"the name '{self.name}' is reserved for a volume of deployer"
            refuse(said, "choose another")
        if f"{self.mount_path}/".startswith("/deployer/") and self.name != CHECKPOINTS:
            said = "mount_path: /deployer is reserved for deployer"
            refuse(said, "choose another")
        if not self.mount_path and self.name != CHECKPOINTS:
            hint = "mount_path: /data"
            refuse("has no mount_path", hint)
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SecretKey:
    """One key of an existing Secret."""

    name: LongName
    """The name of the Secret."""

    key: Text
    """The key in the Secret."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Toleration:
    """A taint that agents tolerate, in Kubernetes' own terms."""

    key: Text | None = None
    """The taint's key; default with `Exists`: every key."""

    operator: Literal["Exists", "Equal"] | None = None
    """`Equal` compares the value; `Exists` ignores it."""

    value: Value | None = None
    """The taint's value."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; default: every effect."""

    tolerationSeconds: Annotated[int, Field(ge=0)] | None = None
    """How many seconds a pod stays after a NoExecute taint appears."""


# The section `kubernetes:` of deployer.yaml as one frozen `ClusterConfig`; pure. Missing settings
# keep the template's values: k8s/agent.yaml, or the user's own manifest.


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ClusterConfig:
    """Where agents run in a cluster and what resources each gets."""

    image: Image | None = None
    """Any image with Python and wandb."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When a node pulls the image."""

    image_pull_secrets: tuple[LongName, ...] = ()
    """Secrets that nodes use to pull the image."""

    python: Text = "python3"
    """The Python interpreter in the image."""

    install_wandb: bool = False
    """Install wandb from a package index in each pod if the image's Python lacks it; needs
    Python 3.10 or newer.
    """

    code: Literal["image", "archive"] = "archive"
    """Run the image's code, or a frozen archive of this folder."""

    working_dir: AbsolutePath | None = None
    """The folder of the image's code."""

    context: Text | None = None
    """The context in kubeconfig."""

    namespace: ObjectName | None = None
    """The namespace of agents; default: the context's."""

    identity_audience: Annotated[str, Field(min_length=1)] | None = None
    """Pods log in to W&B's servers without a key: with a token of their service account for this
    audience. The server must trust it. The embedded backend needs none.
    """

    service_account: LongName | None = None
    """The ServiceAccount of the pods."""

    run_as_user: Annotated[int, Field(ge=1)] | None = None
    """The user id of the containers, and the group id of their volumes."""

    gpu: Annotated[Gpu | None, BeforeValidator(count_to_gpu, json_schema_input_type=int | Gpu)] = (
        None
    )
    """The number or kind of GPUs of each pod; default: one."""

    agents_per_pod: Annotated[int, Field(ge=1, le=MOST_PER_POD)] = 1
    """How many agents share a pod, its GPU, cores and memory."""

    cpu: PlainOrAmount | None = None
    """CPU cores: both the request and the limit, or `{request: 2, limit: 4}`."""

    memory: PlainOrAmount | None = None
    """Memory: both the request and the limit, or `{request: 1Gi, limit: 4Gi}`."""

    shared_memory: Quantity | None = None
    """Size of /dev/shm."""

    volumes: tuple[Volume, ...] = ()
    """Volumes of each agent."""

    env: Mapping[str, Value] = Field(default_factory=dict)
    """Environment variables of agents, except secrets."""

    secrets: Mapping[str, SecretKey] = Field(default_factory=dict)
    """Environment variables from existing Secrets."""

    node_selector: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that a node must have."""

    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that agents tolerate."""

    priority_class: LongName | None = None
    """The PriorityClass of the pods."""

    runtime_class: LongName | None = None
    """The RuntimeClass of the pods, such as `nvidia` on k3s."""

    host_ipc: bool = False
    """Pods share their node's IPC, which NVIDIA's MPS needs. Pod Security allows it only at the
    level `privileged`.
    """

    queue: ObjectName | None = None
    """Kueue's LocalQueue for the Jobs."""

    queue_priority: LongName | None = None
    """Kueue's WorkloadPriorityClass, which orders Jobs in the queue and decides preemption.
    Default: the pods' PriorityClass.
    """

    labels: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    """More labels on Jobs and pods."""

    annotations: Mapping[LabelKey, Value] = Field(default_factory=dict)
    """More annotations on Jobs and pods."""

    generate_name: bool = False
    """Let the server generate the Jobs' names (generateName)."""

    grace_period: Annotated[Duration, at_least(5)] | None = None
    """How long a pod may take to stop, such as 60s."""

    max_time: Annotated[Duration, at_least(1)] | None = None
    """The time limit of an agent, such as 12h."""

    ttl: Duration | None = None
    """How long to keep an ended Job and its log, such as 2h."""

    template: Text | None = None
    """A file with your own manifest of one Job, relative to deployer.yaml."""

    def count_pods(self, agents: int) -> int:
        return ceil(agents / self.agents_per_pod)

    @field_validator("env", "secrets")
    @classmethod
    def _check_variables(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        wrong = [name for name in value if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
        if wrong:
            said = f"'{wrong[0]}' is not the name of an environment variable"
            refuse(said)
        if "WANDB_API_KEY" in value:
            hint = "deployer secret set"
            refuse("the key cannot be set in a file", hint)
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_twice(self.volumes, "volumes: ")
        if self.queue_priority and not self.queue and not self.template:
            said = "queue_priority: needs a queue"
            refuse(said, "queue: NAME")
        if self.working_dir and self.code == "archive":
            said = "working_dir: with an archive, agents work in the archive's folder"
            hint = "remove it, or write `code: image`"
            refuse(said, hint)
        return self
