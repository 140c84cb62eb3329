"""The section `image:` of deployer.yaml as one frozen `ImageConfig`; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from deployer.config.check import STRICT, Text, Value, matching
from deployer.config.document import FILE_NAME
from deployer.config.image_reference import REPOSITORY
from deployer.errors import ConfigError

BUILDERS = ("docker", "podman", "buildah")
REPOSITORY_HINT = (
    "write REGISTRY/NAME without a tag, in small letters, such as registry.example/team/trainer"
)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ImageConfig:
    """How an image is built, with which tool, and where it is pushed."""

    repository: Annotated[str | None, matching(REPOSITORY, REPOSITORY_HINT)] = None
    """The registry and name to push to, without a tag."""

    dockerfile: Text = "Dockerfile"
    """The Dockerfile, relative to deployer.yaml."""

    context: Text = "."
    """The folder that the build may copy from."""

    build_args: Mapping[str, Value] = Field(default_factory=dict)
    """Arguments of the Dockerfile; no secrets."""

    variant: Literal["cpu", "cuda", "cuda12"] | None = None
    """The Dockerfile's argument VARIANT; `cuda12` also supports P100 and V100."""

    platform: Text = "linux/amd64"
    """The platform of the cluster's nodes."""

    builder: Literal["docker", "podman", "buildah"] | None = None
    """The build tool; default: the first that works on this machine."""

    ca: Text | None = None
    """A PEM file with the registry's own certificate authority."""

    plain_http: bool = False
    """Use HTTP without TLS, as for a registry on localhost."""

    def require_repository(self) -> str:
        """Return the repository; raises ConfigError if none is set."""
        if self.repository:
            return self.repository
        hint = "image: {repository: registry.example/team/trainer} in deployer.yaml"
        raise ConfigError(f"{FILE_NAME}: image.repository", "is missing", hint)

    @property
    def arguments(self) -> dict[str, str]:
        variant = {"VARIANT": self.variant} if self.variant else {}
        return dict(sorted({**self.build_args, **variant}.items()))
