"""The images that a Dockerfile builds on: which they are, and whether they have changed since."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from deployer.config.sections.image import ImageConfig
from deployer.config.sections.image_reference import DOCKER_HUB, Repository, split_reference
from deployer.errors import CloudError, ImageError
from deployer.images.registry import Registry
from deployer.images.registry_credentials import OWN_LOGIN, find_credentials

# Labels of an image: the hash of what went in, which is its tag, and its bases as JSON.
INPUTS_LABEL = "org.opencontainers.image.version"
BASES_LABEL = "dev.deployer.bases"
NOTHING = "scratch"
LOCAL = "localhost"  # what a tool calls its own images
FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
COPY = re.compile(r"^\s*COPY\s+(?:--\S+\s+)*--from=(\S+)\s", re.IGNORECASE)
ARGUMENT = re.compile(r"^\s*ARG\s+(\w+)(?:=(\S*))?\s*$", re.IGNORECASE)
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})")

Tell = Callable[[str], None]


def list_bases(dockerfile: str, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """Return the images of other people that a Dockerfile begins with or copies from, each once."""
    lines = dockerfile.replace("\\\n", " ").splitlines()
    values: dict[str, str] = {}
    stages: set[str] = set()
    found: list[str] = []
    for line in lines:
        if (given := ARGUMENT.match(line)) and not stages:  # later ones are their stage's own
            values[given[1]] = arguments.get(given[1], (given[2] or "").strip("\"'"))
        elif begun := FROM.match(line):
            found += _name(begun[1], values, stages)
            stages |= {(begun[2] or "").lower(), str(len(stages))}
        elif copied := COPY.match(line):
            found += _name(copied[1], values, stages)
    return tuple(dict.fromkeys(found))


def _name(text: str, values: Mapping[str, str], stages: set[str]) -> Iterator[str]:
    """Yield an image's name unless it is nothing, a stage, or cannot be told."""
    name = VARIABLE.sub(lambda m: values.get(m[1] or m[2]) or m[3] or "", text)
    if name and name.lower() != NOTHING and name.lower() not in stages and not name.isdigit():
        yield name


def find_digests(
    bases: Sequence[str],
    settings: ImageConfig,
    environment: Mapping[str, str],
    ca: str,
    tell: Tell,
) -> dict[str, str]:
    """Ask registries for the digests of bases; those that cannot be told are left out.

    Images of this machine alone (localhost/…) have none.
    """
    digests = {}
    for base in bases:
        name, at, digest = base.partition("@")
        if at:
            digests[base] = digest
            continue
        repository, tag = parse_base(name)
        if repository.host == LOCAL:
            continue
        own = (settings.repository or "").startswith(f"{repository.host}/")
        # A login that was given for our own registry is nobody else's business.
        given = {k: v for k, v in environment.items() if own or k not in OWN_LOGIN}
        try:
            credentials = find_credentials(repository, given)
            plain = own and settings.plain_http
            found = Registry(repository, credentials, ca if own else "", plain).get_digest(tag)
        except (ImageError, CloudError) as error:
            tell(f"whether the base {base} is newer cannot be told: {error.message}")
            continue
        if found:
            digests[base] = found
    return digests


def parse_base(name: str) -> tuple[Repository, str]:
    """Return where an image is and its tag, as docker reads a name without a registry."""
    repository, tag = split_reference(name)
    host, slash, path = repository.partition("/")
    if not slash or not (set(host) & set(".:") or host == LOCAL):
        host, path = DOCKER_HUB, repository if slash else f"library/{repository}"
    return Repository(host, path), tag or "latest"


def is_ours(labels: Mapping[str, str], tag: str) -> bool:
    """Tell whether an image was made of these inputs, going by its labels."""
    return labels.get(INPUTS_LABEL) == tag


def list_changed(labels: Mapping[str, str], digests: Mapping[str, str]) -> list[str]:
    """Return the bases that have another digest now than when an image was built."""
    try:
        then = dict(json.loads(labels.get(BASES_LABEL, "{}")))
    except (ValueError, TypeError):
        then = {}
    return [base for base, digest in digests.items() if then.get(base) != digest]


def write_bases(digests: Mapping[str, str]) -> str:
    """Return the label's value for the bases that an image is built on."""
    return json.dumps(dict(sorted(digests.items())), separators=(",", ":"))
