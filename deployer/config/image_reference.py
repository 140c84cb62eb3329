"""The name of an image: registry, repository, tag or digest; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deployer.errors import ConfigError

# As in docker, the first part is a registry if it has a dot, a port, or is localhost.
REPOSITORY = (
    r"^(localhost|[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+|[a-zA-Z0-9-]+:[0-9]+)(:[0-9]+)?"
    r"(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)+$"
)
# [HOST[:PORT]/]NAME[:TAG][@DIGEST] as nodes read it; the grammar is that of reference/regexp.go in
# github.com/distribution/reference.
_DOMAIN = r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?"
_NAME = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
IMAGE = (
    rf"^({_DOMAIN}(\.{_DOMAIN})*(:[0-9]+)?/)?{_NAME}(/{_NAME})*"
    r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@[A-Za-z0-9]+([-_+.][A-Za-z0-9]+)*:[0-9a-fA-F]{32,})?$"
)
IMAGE_HINT = "write REGISTRY/NAME:TAG, the name in small letters, or REGISTRY/NAME@sha256:DIGEST"
DOCKER_HUB = "docker.io"
ARTIFACT_REGISTRY = "-docker.pkg.dev"


@dataclass(frozen=True)
class Repository:
    """A repository of a registry, such as `registry.example:5000` and `team/trainer`."""

    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"

    @property
    def api_host(self) -> str:
        """Return the host of the API, which differs for Docker Hub."""
        return "registry-1.docker.io" if self.host == DOCKER_HUB else self.host

    @property
    def is_google(self) -> bool:
        """Return True for Google's registries: Artifact Registry, or its predecessors."""
        return (
            self.host.endswith(ARTIFACT_REGISTRY)
            or re.fullmatch(r"([a-z]+\.)?gcr\.io", self.host) is not None
        )

    @property
    def is_artifact_registry(self) -> bool:
        """Return True for LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME."""
        return self.host.endswith(ARTIFACT_REGISTRY)

    @property
    def google_place(self) -> tuple[str, str, str]:
        """Return location, project and repository of an Artifact Registry image."""
        project, repository = self.path.split("/")[:2]
        return self.host.removesuffix(ARTIFACT_REGISTRY), project, repository


def parse_repository(text: str, place: str = "--repository") -> Repository:
    """Read REGISTRY/NAME; raises ConfigError."""
    if not re.fullmatch(REPOSITORY, text):
        hint = "write REGISTRY/NAME without a tag, such as registry.example/team/trainer"
        raise ConfigError(place, f"'{text}' is not valid", hint)
    host, _, path = text.partition("/")
    if host.endswith(ARTIFACT_REGISTRY) and path.count("/") < 2:
        hint = "write LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME"
        raise ConfigError(place, f"'{text}' is not an Artifact Registry image", hint)
    return Repository(host, path)


def split_reference(reference: str) -> tuple[str, str]:
    """Return repository and tag of `REPOSITORY:TAG`; the tag is empty without one."""
    repository, colon, tag = reference.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (reference, "")
