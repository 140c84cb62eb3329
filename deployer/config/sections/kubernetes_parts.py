"""The parts of deployer.yaml's section `kubernetes:`: volumes, GPUs, tolerations; pure."""

from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    model_validator,
)
from pydantic.dataclasses import dataclass

from deployer.config.field_types import STRICT, Text, Value, matching, refuse
from deployer.config.sections.image_reference import IMAGE, IMAGE_HINT

CHECKPOINTS = "checkpoints"
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"  # set by the device plugin's feature discovery
CHECKPOINTS_PATH = "/deployer/checkpoints"
OUTPUTS_FOLDER = "outputs"  # on the volume of checkpoints
# Volumes of k8s/agent.yaml that nobody can replace.
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
LABEL_LETTERS = "at most 63 letters, digits, dashes, dots and underscores, no sign first or last"


def count_to_gpu(value: object) -> object:
    """Take `gpu: 2` as `gpu: {count: 2}`."""
    given = value.get("count") if isinstance(value, dict) else value
    if isinstance(given, float):
        hint = "agents share one by agents_per_pod: 2; a slice is resource: nvidia.com/mig-1g.5gb"
        refuse("a pod cannot request a fraction of a GPU", hint)
    if isinstance(value, list) or (
        isinstance(value, dict) and isinstance(value.get("product"), list)
    ):
        hint = "write gpu: {count: 1, product: NAME}, or remove it and set node_selector"
        refuse("a list, and agents get one product", hint)
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


def _bare_empty_dir(value: object) -> object:
    """Take `empty_dir:` and `empty_dir: {}` as one."""
    return {} if value is None else value


def _plain_to_amount(value: object) -> object:
    """Take `cpu: 2` as `cpu: {request: 2, limit: 2}`."""
    return value if isinstance(value, dict | Amount) else {"request": value, "limit": value}


Quantity = Annotated[Value, matching(QUANTITY, "write it as Kubernetes does: 500m, 2, 4Gi")]
Image = Annotated[str, matching(IMAGE, IMAGE_HINT)]
ObjectName = Annotated[str, matching(NAME, "small letters, digits and dashes, at most 63")]
# Of what is no part of an address.
LongName = Annotated[str, matching(OBJECT, "small letters, digits, dashes and dots")]
LabelKey = Annotated[str, matching(LABEL_KEY, f"a name, or DOMAIN/NAME: {LABEL_LETTERS}")]
LabelValue = Annotated[Value, matching(LABEL_VALUE, LABEL_LETTERS)]
AbsolutePath = Annotated[str, matching(ABSOLUTE_PATH, "write an absolute path")]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Amount:
    """How much of a resource a pod gets in any case, and the most that it may use."""

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
    """A folder of an NFS server; it comes as a PersistentVolume and a claim on it, or `inline`."""

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
    """A folder that lives as long as the pod; `memory` keeps it in memory."""

    size: Quantity | None = None
    """The size limit."""

    memory: bool = False
    """Keep it in memory; it counts towards the pod's memory."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Volume:
    """A volume from exactly one source.

    One named `checkpoints` takes the place of the folder that ends with the pod.
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
        """Where it is mounted."""
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


ONE_SOURCE = f"give exactly one of {', '.join(SOURCES)}"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SecretKey:
    """One key of an existing Secret."""

    name: LongName
    """The name of the Secret."""

    key: Text
    """The key in the Secret."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Toleration:
    """A taint that agents bear, in Kubernetes' own words."""

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
