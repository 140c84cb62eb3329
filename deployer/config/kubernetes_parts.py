"""The parts of deployer.yaml's section `kubernetes:`: volumes, GPUs, tolerations; pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from deployer.config.section import STRICT, Text, Value

CHECKPOINTS = "checkpoints"
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"  # set by the device plugin's feature discovery
CHECKPOINTS_PATH = "/deployer/checkpoints"
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
ABSOLUTE_PATH = r"^/[^:]*$"
PATTERN_HINTS = {
    QUANTITY: "write it as Kubernetes does: 500m, 2, 4Gi",
    NAME: "small letters, digits and dashes, at most 63",
    ABSOLUTE_PATH: "write an absolute path",
}


def count_to_gpu(value: object) -> object:
    """Take `gpu: 2` as `gpu: {count: 2}`."""
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


def _bare_empty_dir(value: object) -> object:
    """Take `empty_dir:` and `empty_dir: {}` as one."""
    return {} if value is None else value


Quantity = Annotated[Value, StringConstraints(pattern=QUANTITY)]
ObjectName = Annotated[str, StringConstraints(pattern=NAME)]
AbsolutePath = Annotated[str, StringConstraints(pattern=ABSOLUTE_PATH)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Gpu:
    """GPUs of each agent. `count` 0 asks for none."""

    count: Annotated[int, Field(ge=0)] = 1
    resource: Text = "nvidia.com/gpu"
    product: Text | None = None
    product_label: Text = GPU_PRODUCT_LABEL


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NfsFolder:
    """A folder of an NFS server; it comes as a PersistentVolume and a claim on it."""

    server: Text
    path: AbsolutePath


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EmptyDir:
    """A folder that lives as long as the pod; `memory` keeps it in memory."""

    size: Quantity | None = None
    memory: bool = False


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Volume:
    """A volume from exactly one source.

    One named `checkpoints` takes the place of the folder that ends with the pod.
    """

    name: ObjectName
    mount_path: AbsolutePath = ""
    read_only: bool = False
    sub_path: Text | None = None
    pvc: Text | None = None
    nfs: NfsFolder | None = None
    empty_dir: Annotated[EmptyDir | None, BeforeValidator(_bare_empty_dir)] = None
    config_map: Text | None = None
    secret: Text | None = None

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

    name: Text
    key: Text


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Toleration:
    """A taint that agents bear, in Kubernetes' own words."""

    key: Text | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: Value | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: Annotated[int, Field(ge=0)] | None = None
