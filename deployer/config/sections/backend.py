"""The section `backend:` of deployer.yaml: the embedded backend where it runs in a cluster; pure.

What is left out here is as for agents (`kubernetes:`), or as k8s/backend.yaml has it.
"""

from collections.abc import Mapping

from pydantic import Field
from pydantic.dataclasses import dataclass

from deployer.config.field_types import STRICT, Text, Value
from deployer.config.sections.kubernetes_parts import (
    Image,
    LabelKey,
    LabelValue,
    LongName,
    ObjectName,
    Quantity,
    Toleration,
)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BackendConfig:
    """Which image the backend runs in, what it gets, and its disk."""

    image: Image | None = None
    """An image with Python 3.11 or newer; default: the agents' image."""

    python: Text | None = None
    """The Python interpreter in the image; default: the agents'."""

    size: Quantity | None = None
    """The size of a new disk for its data."""

    storage_class: LongName | None = None
    """The StorageClass of its disk; default: the cluster's."""

    cpu: Quantity | None = None
    """CPU cores: both the request and the limit."""

    memory: Quantity | None = None
    """Memory: both the request and the limit."""

    env: Mapping[str, Value] = Field(default_factory=dict)
    """Environment variables of the backend."""

    queue: ObjectName | None = None
    """Its LocalQueue of Kueue, if the site requires one for each workload."""

    node_selector: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that its node must have."""

    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that it tolerates."""
