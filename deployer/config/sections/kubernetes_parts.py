"""The parts of deployer.yaml's section `kubernetes:`: volumes, GPUs, tolerations; pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from deployer.config.sections.image_reference import IMAGE, IMAGE_HINT
from deployer.config.sections.section import STRICT, Text, Value

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
PATTERN_HINTS = {
    IMAGE: IMAGE_HINT,
    LABEL_VALUE: LABEL_LETTERS,
    LABEL_KEY: f"a name, or DOMAIN/NAME: {LABEL_LETTERS}",
    OBJECT: "small letters, digits, dashes and dots",
    QUANTITY: "write it as Kubernetes does: 500m, 2, 4Gi",
    NAME: "small letters, digits and dashes, at most 63",
    ABSOLUTE_PATH: "write an absolute path",
}


def count_to_gpu(value: object) -> object:
    """Take `gpu: 2` as `gpu: {count: 2}`."""
    given = value.get("count") if isinstance(value, dict) else value
    if isinstance(given, float):
        hint = "agents share one by agents_per_pod: 2; a slice is resource: nvidia.com/mig-1g.5gb"
        raise PydanticCustomError("gpu", "a part of a GPU cannot be asked for", {"hint": hint})
    if isinstance(value, list) or (
        isinstance(value, dict) and isinstance(value.get("product"), list)
    ):
        hint = "write gpu: {count: 1, product: NAME}, or leave it out and set node_selector"
        raise PydanticCustomError("gpu", "a list, and agents get one product", {"hint": hint})
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


def _bare_empty_dir(value: object) -> object:
    """Take `empty_dir:` and `empty_dir: {}` as one."""
    return {} if value is None else value


def _plain_to_amount(value: object, read: ValidatorFunctionWrapHandler) -> object:
    """Take `cpu: 2` as `cpu: {request: 2, limit: 2}`."""
    if isinstance(value, dict | Amount):
        return read(value)
    quantity = _QUANTITY.validate_python(value)
    return Amount(request=quantity, limit=quantity)


Quantity = Annotated[Value, StringConstraints(pattern=QUANTITY)]
_QUANTITY: TypeAdapter[str] = TypeAdapter(Quantity)
Image = Annotated[str, StringConstraints(pattern=IMAGE)]
ObjectName = Annotated[str, StringConstraints(pattern=NAME)]
LongName = Annotated[str, StringConstraints(pattern=OBJECT)]  # of what is no part of an address
LabelKey = Annotated[str, StringConstraints(pattern=LABEL_KEY)]
LabelValue = Annotated[Value, StringConstraints(pattern=LABEL_VALUE)]
AbsolutePath = Annotated[str, StringConstraints(pattern=ABSOLUTE_PATH)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Amount:
    """How much of a resource a pod gets in any case, and the most that it may use."""

    request: Annotated[
        Quantity, Field(description="What a node keeps free for it, and quotas count.")
    ]
    limit: Annotated[
        Quantity,
        Field(description="The most: of memory the kernel ends it beyond, of cores it waits."),
    ]


PlainOrAmount = Annotated[
    Amount, WrapValidator(_plain_to_amount, json_schema_input_type=Quantity | Amount)
]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Gpu:
    """GPUs of each agent. `count` 0 asks for none."""

    count: Annotated[int, Field(ge=0, description="How many each agent gets; 0 for none.")] = 1
    resource: Annotated[
        LabelKey,
        Field(
            description="The resource that the device plugin offers, such as nvidia.com/mig-1g.5gb."
        ),
    ] = "nvidia.com/gpu"
    product: Annotated[
        LabelValue | None,
        Field(description="The model by its label, such as NVIDIA-A100-SXM4-40GB; left out: any."),
    ] = None
    product_label: Annotated[
        LabelKey, Field(description="The label of nodes that names their GPU's model.")
    ] = GPU_PRODUCT_LABEL


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NfsFolder:
    """A folder of an NFS server; it comes as a PersistentVolume and a claim on it, or `inline`."""

    server: Annotated[Text, Field(description="The host name or address of the NFS server.")]
    path: Annotated[AbsolutePath, Field(description="The exported folder.")]
    inline: Annotated[
        bool,
        Field(
            description="Mount it in the pod itself, which takes no right to make a "
            "PersistentVolume; Pod Security forbids it at the level `restricted`."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EmptyDir:
    """A folder that lives as long as the pod; `memory` keeps it in memory."""

    size: Annotated[Quantity | None, Field(description="The most that it may hold.")] = None
    memory: Annotated[
        bool, Field(description="Keep it in memory, which counts for the memory of the pod.")
    ] = False


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Volume:
    """A volume from exactly one source.

    One named `checkpoints` takes the place of the folder that ends with the pod.
    """

    name: Annotated[
        ObjectName,
        Field(description="Its name; `checkpoints` replaces the folder that ends with the pod."),
    ]
    mount_path: Annotated[
        AbsolutePath, Field(description="Where agents see it; only `checkpoints` has a default.")
    ] = ""
    read_only: Annotated[bool, Field(description="Mount it read-only.")] = False
    sub_path: Annotated[
        Text | None, Field(description="A folder inside the volume, mounted instead of its root.")
    ] = None
    pvc: Annotated[
        LongName | None, Field(description="From an existing PersistentVolumeClaim, by name.")
    ] = None
    nfs: Annotated[NfsFolder | None, Field(description="From a folder of an NFS server.")] = None
    empty_dir: Annotated[
        EmptyDir | None,
        BeforeValidator(_bare_empty_dir),
        Field(description="A new folder that ends with the pod."),
    ] = None
    config_map: Annotated[
        LongName | None, Field(description="From an existing ConfigMap, by name.")
    ] = None
    secret: Annotated[LongName | None, Field(description="From an existing Secret, by name.")] = (
        None
    )

    @property
    def path(self) -> str:
        """Where it is mounted."""
        return self.mount_path or CHECKPOINTS_PATH

    @model_validator(mode="after")
    def _check(self) -> Volume:
        given = [source for source in SOURCES if getattr(self, source) is not None]
        if len(given) != 1:
            said = f"has {' and '.join(given)}" if given else "has no source"
            raise PydanticCustomError("volume", "{said}", {"said": said, "hint": ONE_SOURCE})
        if self.name in RESERVED_VOLUMES:
            said = f"the name '{self.name}' is taken by a volume of deployer's own"
            raise PydanticCustomError("volume", "{said}", {"said": said, "hint": "choose another"})
        if f"{self.mount_path}/".startswith("/deployer/") and self.name != CHECKPOINTS:
            said = "mount_path: folders in /deployer are deployer's own"
            raise PydanticCustomError("volume", "{said}", {"said": said, "hint": "choose another"})
        if not self.mount_path and self.name != CHECKPOINTS:
            hint = "mount_path: /data"
            raise PydanticCustomError("volume", "has no mount_path", {"hint": hint})
        return self


ONE_SOURCE = f"give exactly one of {', '.join(SOURCES)}"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SecretKey:
    """One key of an existing Secret."""

    name: Annotated[LongName, Field(description="The Secret.")]
    key: Annotated[Text, Field(description="The key in it.")]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Toleration:
    """A taint that agents bear, in Kubernetes' own words."""

    key: Annotated[
        Text | None, Field(description="The taint's key; left out with `Exists`: every key.")
    ] = None
    operator: Annotated[
        Literal["Exists", "Equal"] | None,
        Field(description="`Equal` compares the value, `Exists` does not."),
    ] = None
    value: Annotated[Value | None, Field(description="The taint's value.")] = None
    effect: Annotated[
        Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None,
        Field(description="Left out: every effect."),
    ] = None
    tolerationSeconds: Annotated[
        Annotated[int, Field(ge=0)] | None,
        Field(description="How many seconds a pod stays after a NoExecute taint has appeared."),
    ] = None
