"""The section `backend:` of deployer.yaml: the embedded backend where it runs in a cluster; pure.

What is left out here is as for agents (`kubernetes:`), or as k8s/backend.yaml has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from deployer.cluster_parts import PATTERN_HINTS, STRICT, Quantity, Text, Toleration, Value
from deployer.complaints import PlaceOf, Shape, list_complaints
from deployer.errors import ConfigError, ConfigErrors
from deployer.yaml_document import parse_document

SECTION = "backend"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BackendConfig:
    """Which image the backend runs in, what it gets, and its disk."""

    image: Annotated[
        Text | None, Field(description="One with deployer in it; left out: the agents' image.")
    ] = None
    python: Annotated[
        Text | None, Field(description="The interpreter in the image; left out: the agents'.")
    ] = None
    size: Annotated[Quantity | None, Field(description="Of the disk, when it is made.")] = None
    storage_class: Annotated[
        Text | None, Field(description="Of the disk; left out: the cluster's default.")
    ] = None
    cpu: Annotated[Quantity | None, Field(description="CPU cores, request and limit.")] = None
    memory: Annotated[Quantity | None, Field(description="Request and limit.")] = None
    env: Mapping[str, Value] = Field(default_factory=dict)
    node_selector: Mapping[str, Value] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


ADAPTER = TypeAdapter(BackendConfig)
SHAPE = Shape(BackendConfig, {"tolerations": Toleration}, PATTERN_HINTS)


def parse_backend(section: object, place_of: PlaceOf | None = None) -> BackendConfig:
    """Read the section `backend:`; raises ConfigErrors with every complaint."""
    places = place_of or _name_place
    try:
        text = json.dumps({} if section is None else section, default=str)
        return ADAPTER.validate_json(text)
    except ValidationError as error:
        raise ConfigErrors(list_complaints(error, SHAPE, places)) from error
    except TypeError as error:  # a key that is a date
        raise ConfigErrors([ConfigError(places(()), str(error))]) from error


def load_backend_config(folder: Path) -> BackendConfig:
    """Read the section `backend:` of `deployer.yaml` in a folder; the defaults without one.

    Raises ConfigErrors with every complaint and its line.
    """
    path = folder / "deployer.yaml"
    if not path.exists():
        return BackendConfig()
    document = parse_document(path.read_text(encoding="utf-8"), path.name)
    section = document.value.get(SECTION) if isinstance(document.value, dict) else None
    return parse_backend(section, lambda inside: document.place_of((SECTION, *inside)))


def _name_place(path: tuple[str, ...]) -> str:
    return ".".join((f"deployer.yaml: {SECTION}", *path)).replace(".[", "[")
