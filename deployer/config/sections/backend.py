"""The section `backend:` of deployer.yaml: the embedded backend where it runs in a cluster; pure.

What is left out here is as for agents (`kubernetes:`), or as k8s/backend.yaml has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from deployer.config.sections.kubernetes_parts import (
    PATTERN_HINTS,
    Image,
    LabelKey,
    LabelValue,
    LongName,
    ObjectName,
    Quantity,
    Toleration,
)
from deployer.config.sections.section import STRICT, Section, Text, Value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BackendConfig:
    """Which image the backend runs in, what it gets, and its disk."""

    image: Annotated[
        Image | None,
        Field(description="An image with Python 3.11 or newer; left out: the agents' image."),
    ] = None
    python: Annotated[
        Text | None,
        Field(description="The Python interpreter in the image; left out: the agents'."),
    ] = None
    size: Annotated[
        Quantity | None, Field(description="The size of its disk, when the disk is made.")
    ] = None
    storage_class: Annotated[
        LongName | None,
        Field(description="The StorageClass of its disk; left out: the cluster's default."),
    ] = None
    cpu: Annotated[Quantity | None, Field(description="CPU cores, request and limit.")] = None
    memory: Annotated[Quantity | None, Field(description="Request and limit.")] = None
    env: Annotated[
        Mapping[str, Value], Field(description="Environment variables of the backend.")
    ] = Field(default_factory=dict)
    queue: Annotated[
        ObjectName | None,
        Field(description="Its LocalQueue of Kueue, where a site demands one of every workload."),
    ] = None
    node_selector: Annotated[
        Mapping[LabelKey, LabelValue], Field(description="Labels that its node must have.")
    ] = Field(default_factory=dict)
    tolerations: Annotated[
        tuple[Toleration, ...], Field(description="Taints of nodes that it tolerates.")
    ] = ()


SECTION = Section("backend", BackendConfig, {"tolerations": Toleration}, PATTERN_HINTS)


def parse_backend(section: object) -> BackendConfig:
    """Read the section `backend:`; raises ConfigError with every complaint."""
    return SECTION.parse(section)
