"""The section `image:` of deployer.yaml as one frozen `ImageConfig`; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from deployer.cluster_parts import STRICT, Text, Value
from deployer.complaints import PlaceOf, Shape, list_complaints
from deployer.errors import ConfigError, ConfigErrors
from deployer.image.reference import REPOSITORY
from deployer.yaml_document import parse_document

SECTION = "image"
BUILDERS = ("docker", "podman", "buildah")
PATTERN_HINTS = {
    REPOSITORY: "write REGISTRY/NAME without a tag, in small letters, "
    "such as registry.example/team/trainer",
}


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ImageConfig:
    """What an image is made of, with which tool, and where it goes."""

    repository: Annotated[
        str | None,
        StringConstraints(pattern=REPOSITORY),
        Field(description="Where the image is pushed to: registry and name, without a tag."),
    ] = None
    dockerfile: Annotated[Text, Field(description="Beside deployer.yaml.")] = "Dockerfile"
    context: Annotated[Text, Field(description="The folder that the build may copy from.")] = "."
    build_args: Annotated[
        Mapping[str, Value], Field(description="Arguments of the Dockerfile; no secrets.")
    ] = Field(default_factory=dict)
    variant: Annotated[
        Literal["cpu", "cuda"] | None, Field(description="The Dockerfile's argument VARIANT.")
    ] = None
    platform: Annotated[Text, Field(description="What the cluster's nodes are.")] = "linux/amd64"
    builder: Annotated[
        Literal["docker", "podman", "buildah"] | None,
        Field(description="Left out: the first of them that works."),
    ] = None
    ca: Annotated[
        Text | None, Field(description="The registry's own certificate authority, a PEM file.")
    ] = None
    plain_http: Annotated[
        bool, Field(description="The registry speaks HTTP without TLS, as on localhost.")
    ] = False

    def require_repository(self) -> str:
        """Return where the image goes; raises ConfigError if nobody said."""
        if self.repository:
            return self.repository
        hint = "image: {repository: registry.example/team/trainer} in deployer.yaml"
        raise ConfigError(f"deployer.yaml: {SECTION}.repository", "is missing", hint)

    @property
    def arguments(self) -> dict[str, str]:
        """Return all arguments of the Dockerfile, in order."""
        variant = {"VARIANT": self.variant} if self.variant else {}
        return dict(sorted({**self.build_args, **variant}.items()))


ADAPTER = TypeAdapter(ImageConfig)
SHAPE = Shape(ImageConfig, {}, PATTERN_HINTS)


def parse_image(section: object, place_of: PlaceOf | None = None) -> ImageConfig:
    """Read the section `image:`; `place_of` names the place of a path such as (build_args, BASE).

    Raises ConfigErrors with every complaint.
    """
    places = place_of or _name_place
    try:
        # As JSON, so that pydantic takes mappings, and still no text for a number.
        text = json.dumps({} if section is None else section, default=str)
        return ADAPTER.validate_json(text)
    except ValidationError as error:
        raise ConfigErrors(list_complaints(error, SHAPE, places)) from error
    except TypeError as error:  # a key that is a date
        raise ConfigErrors([ConfigError(places(()), str(error))]) from error


def load_image_config(folder: Path) -> ImageConfig:
    """Read the section `image:` of `deployer.yaml` in a folder; the defaults without one.

    Raises ConfigErrors with every complaint and its line.
    """
    path = folder / "deployer.yaml"
    if not path.exists():
        return ImageConfig()
    document = parse_document(path.read_text(encoding="utf-8"), path.name)
    section = document.value.get(SECTION) if isinstance(document.value, dict) else None
    return parse_image(section, lambda inside: document.place_of((SECTION, *inside)))


def _name_place(path: tuple[str, ...]) -> str:
    return ".".join((f"deployer.yaml: {SECTION}", *path)).replace(".[", "[")
