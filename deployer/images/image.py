"""Build, push, find, save and load an image; doing any of it twice changes nothing."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deployer.config.image_reference import Repository, parse_repository, split_reference
from deployer.config.image_section import SECTION, ImageConfig
from deployer.errors import ConfigError, ImageError
from deployer.images.builders import Build, Builder, Login, Tell, choose_builder
from deployer.images.context import Inputs, copy_context, read_inputs, warn_about_context
from deployer.images.image_archive import Archive, read_archive
from deployer.images.registry import Registry
from deployer.images.registry_credentials import find_credentials, write_auth_file
from deployer.text import format_bytes

CA = "DEPLOYER_REGISTRY_CA"
# What the programs of a build read about package indexes; it may hold a password.
INDEX_VARIABLES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST"),
    *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"),
)
AUTHORITIES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True)
class BuiltImage:
    """An image that a tool holds; `seconds` is 0 if it was there already."""

    reference: str
    size_bytes: int
    seconds: float
    builder: str


@dataclass(frozen=True)
class SavedImage:
    """An image in a file; `digest` is the one that a registry will give it."""

    path: Path
    reference: str
    digest: str
    size_bytes: int


@dataclass(frozen=True)
class LoadedImage:
    """An image from a file in a registry, and how much of it had to be uploaded."""

    reference: str
    size_bytes: int
    uploaded_bytes: int


def build_image(settings: ImageConfig, folder: Path, tell: Tell) -> BuiltImage:
    """Build the image of a project unless the tool holds it already, and tell each step.

    Its tag is the hash of what goes in. Raises ConfigError, ImageError.
    """
    inputs = read_inputs(settings, folder)
    builder = choose_builder(settings.builder)
    reference = f"{settings.repository or _name_after(folder)}:{inputs.tag}"
    return _build(settings, inputs, builder, reference, tell)


def push_image(
    settings: ImageConfig, folder: Path, environment: Mapping[str, str], tell: Tell
) -> str:
    """Return `repository@sha256:…` of the project's image in the registry.

    Builds and pushes it unless the registry has it. Raises ConfigError, ImageError, CloudError.
    """
    inputs = read_inputs(settings, folder)
    registry = _open_registry(settings, environment)
    reference = f"{registry.repository}:{inputs.tag}"
    there = registry.get_manifest(inputs.tag)
    if there:
        tell(f"{reference}: the registry has it already")
        return f"{registry.repository}@{there.digest}"
    builder = choose_builder(settings.builder)
    registry.check_push()
    _build(settings, inputs, builder, reference, tell)
    began = time.monotonic()
    tell(f"pushing {reference}")
    with _log_in(settings, registry.repository, environment) as login:
        builder.push(reference, login, registry.repository.host, tell)
    pushed = registry.get_manifest(inputs.tag)
    if pushed is None:
        raise ImageError(f"{reference} was pushed and the registry does not have it", "push again")
    size = format_bytes(pushed.size_bytes)
    tell(f"pushed {reference}: {size} in the registry, {time.monotonic() - began:.0f} s")
    return f"{registry.repository}@{pushed.digest}"


def find_pushed(settings: ImageConfig, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Return `repository@sha256:…` if the registry has the image of what is in the folder now."""
    inputs = read_inputs(settings, folder)
    registry = _open_registry(settings, environment)
    there = registry.get_manifest(inputs.tag)
    return f"{registry.repository}@{there.digest}" if there else None


def save_image(settings: ImageConfig, folder: Path, path: Path, tell: Tell) -> SavedImage:
    """Write the project's image to a file that `load_image`, docker and podman read.

    Builds it if needed. An older file is replaced once the new one is whole. Raises ConfigError,
    ImageError.
    """
    if not path.parent.is_dir():
        raise ConfigError(str(path), f"there is no folder {path.parent}")
    built = build_image(settings, folder, tell)
    unfinished = path.with_name(f"{path.name}.partial")
    unfinished.unlink(missing_ok=True)
    try:
        tell(f"saving {built.reference}")
        Builder(built.builder).save(built.reference, unfinished, tell)
        archive = read_archive(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return SavedImage(path, built.reference, archive.digest, path.stat().st_size)


def load_image(
    path: Path, settings: ImageConfig, environment: Mapping[str, str], tell: Tell
) -> LoadedImage:
    """Push the image of a file to `settings.repository` under the tag it was saved with.

    Needs no docker. Returns `repository@sha256:…`; what the registry has is not uploaded again.
    Raises ConfigError, ImageError, CloudError.
    """
    archive = read_archive(path)
    tell(f"{path}: {archive.reference}, {format_bytes(archive.size_bytes)}, {archive.digest}")
    registry = _open_registry(settings, environment)
    tag = split_reference(archive.reference)[1] or archive.digest.removeprefix("sha256:")[:16]
    pinned = f"{registry.repository}@{archive.digest}"
    there = registry.get_manifest(tag)
    if there and there.digest == archive.digest:
        tell(f"{registry.repository}:{tag}: the registry has it already")
        return LoadedImage(pinned, archive.size_bytes, 0)
    uploaded = _upload(archive, registry, tell)
    registry.put_manifest(tag, archive.kind, archive.manifest)
    tell(f"loaded {registry.repository}:{tag}: {format_bytes(uploaded)} uploaded")
    return LoadedImage(pinned, archive.size_bytes, uploaded)


def _build(
    settings: ImageConfig, inputs: Inputs, builder: Builder, reference: str, tell: Tell
) -> BuiltImage:
    if builder.has_image(reference):
        tell(f"{reference}: built already")
        return BuiltImage(reference, builder.get_size(reference), 0.0, builder.name)
    if warning := warn_about_context(inputs):
        tell(f"warning: {warning}")
    tell(f"building {reference} with {builder.name} from {len(inputs.files)} files")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="deployer-image-") as scratch:
        context = Path(scratch) / "context"
        context.mkdir()
        copy_context(inputs, context)
        secrets = _write_secrets(inputs.dockerfile, Path(scratch))
        labels = _list_labels(inputs, reference)
        dockerfile, platform = inputs.dockerfile.resolve(), settings.platform
        builder.build(
            Build(reference, dockerfile, context, platform, settings.arguments, labels, secrets),
            tell,
        )
    seconds, size = time.monotonic() - began, builder.get_size(reference)
    tell(f"built {reference}: {format_bytes(size)}, {seconds:.0f} s")
    return BuiltImage(reference, size, seconds, builder.name)


def _name_after(folder: Path) -> str:
    """Return a name for an image that no registry is named for."""
    return f"localhost/{re.sub('[^a-z0-9]+', '-', folder.resolve().name.lower()).strip('-')}"


def _list_labels(inputs: Inputs, reference: str) -> dict[str, str]:
    labels = {"org.opencontainers.image.version": inputs.tag}
    labels["org.opencontainers.image.ref.name"] = reference
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(asked, cwd=inputs.context, capture_output=True, text=True)
    except FileNotFoundError:
        return labels
    if done.returncode == 0:
        labels["org.opencontainers.image.revision"] = done.stdout.strip()
    return labels


def _write_secrets(dockerfile: Path, scratch: Path) -> dict[str, Path]:
    """Write how this machine reaches package indexes, for a Dockerfile that asks for it."""
    if "--mount=type=secret" not in dockerfile.read_text(encoding="utf-8"):
        return {}
    secrets: dict[str, Path] = {}
    given = {name: os.environ[name] for name in INDEX_VARIABLES if os.environ.get(name)}
    if given:
        secrets["index"] = scratch / "index"
        secrets["index"].touch(0o600)
        lines = (f"export {name}={shlex.quote(value)}\n" for name, value in given.items())
        secrets["index"].write_text("".join(lines))
    authority = next((os.environ[name] for name in AUTHORITIES if os.environ.get(name)), "")
    if authority:
        secrets["ca"] = Path(authority)
    return secrets


def _open_registry(settings: ImageConfig, environment: Mapping[str, str]) -> Registry:
    repository = parse_repository(settings.require_repository())
    credentials = find_credentials(repository, environment)
    return Registry(repository, credentials, _find_ca(settings, environment), settings.plain_http)


def _find_ca(settings: ImageConfig, environment: Mapping[str, str]) -> str:
    """Return the file of the registry's own authority; empty where the usual ones do."""
    named = environment.get(CA) or settings.ca
    if not named:
        return ""
    path = Path(named).expanduser().resolve()
    if not path.is_file():
        place = CA if environment.get(CA) else SECTION.place_of(("ca",))
        raise ConfigError(place, f"there is no file {path}", "name the authority's PEM file")
    return str(path)


@contextmanager
def _log_in(
    settings: ImageConfig, repository: Repository, environment: Mapping[str, str]
) -> Iterator[Login]:
    """Give a tool what it needs to push, and remove it again."""
    credentials = find_credentials(repository, environment)
    authority = _find_ca(settings, environment)
    with ExitStack() as stack:
        folder = ca_folder = None
        if credentials:
            folder = stack.enter_context(write_auth_file(credentials, repository.host, environment))
        if authority:
            ca_folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (ca_folder / "ca.crt").symlink_to(authority)
        yield Login(folder, ca_folder, settings.plain_http)


def _upload(archive: Archive, registry: Registry, tell: Tell) -> int:
    """Upload what the registry does not have; return how many bytes that was."""
    uploaded = 0
    for blob in archive.blobs:
        if registry.has_blob(blob.digest):
            continue
        tell(f"uploading {blob.digest[:19]}: {format_bytes(blob.size_bytes)}")
        registry.put_blob(blob.digest, blob.size_bytes, partial(archive.open_blob, blob))
        uploaded += blob.size_bytes
    return uploaded
