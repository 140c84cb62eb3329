"""The section `image:` of deployer.yaml as one frozen `ImageConfig`; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from pydantic.dataclasses import dataclass

from deployer.config.sections.image_reference import REPOSITORY
from deployer.config.sections.section import STRICT, Section, Text, Value
from deployer.errors import ConfigError

BUILDERS = ("docker", "podman", "buildah")
PATTERN_HINTS = {
    REPOSITORY: "write REGISTRY/NAME without a tag, in small letters, "
    "such as registry.example/team/trainer",
}


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ImageConfig:
    """What an image is built from, with which tool, and where it is pushed."""

    repository: Annotated[
        str | None,
        StringConstraints(pattern=REPOSITORY),
        Field(description="Where the image is pushed to: registry and name, without a tag."),
    ] = None
    dockerfile: Annotated[Text, Field(description="The Dockerfile, relative to deployer.yaml.")] = (
        "Dockerfile"
    )
    context: Annotated[Text, Field(description="The folder that the build may copy from.")] = "."
    build_args: Annotated[
        Mapping[str, Value], Field(description="Arguments of the Dockerfile; no secrets.")
    ] = Field(default_factory=dict)
    variant: Annotated[
        Literal["cpu", "cuda", "cuda12"] | None,
        Field(description="The Dockerfile's argument VARIANT; `cuda12` is for P100 and V100, too."),
    ] = None
    platform: Annotated[Text, Field(description="The platform of the cluster's nodes.")] = (
        "linux/amd64"
    )
    builder: Annotated[
        Literal["docker", "podman", "buildah"] | None,
        Field(description="What builds it; left out: the first that works here."),
    ] = None
    ca: Annotated[
        Text | None, Field(description="The registry's own certificate authority, a PEM file.")
    ] = None
    plain_http: Annotated[
        bool, Field(description="The registry speaks HTTP without TLS, as on localhost.")
    ] = False

    def require_repository(self) -> str:
        """Return the repository; raises ConfigError if none is set."""
        if self.repository:
            return self.repository
        hint = "image: {repository: registry.example/team/trainer} in deployer.yaml"
        raise ConfigError(SECTION.place_of(("repository",)), "is missing", hint)

    @property
    def arguments(self) -> dict[str, str]:
        """Return all arguments of the Dockerfile, in order."""
        variant = {"VARIANT": self.variant} if self.variant else {}
        return dict(sorted({**self.build_args, **variant}.items()))


SECTION = Section("image", ImageConfig, pattern_hints=PATTERN_HINTS)
