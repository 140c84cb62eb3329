"""An image in a file: write, read and push it, in OCI's layout or docker's older one."""

from __future__ import annotations

import hashlib
import json
import logging
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from deployer.config.image import ImageConfig
from deployer.config.image_reference import split_reference
from deployer.errors import ConfigError, ImageError
from deployer.images.image import build_image, open_registry
from deployer.images.registry import Registry
from deployer.text import format_bytes

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
HINT = "deployer image save FILE writes one; so do docker save, podman save and buildah push"
Members = dict[str, tarfile.TarInfo]
LOG = logging.getLogger(__name__)


# An image in a file, as docker, podman and buildah write it: OCI's layout, or docker's older one.
# Source: github.com/opencontainers/image-spec (image-layout.md), and moby's image/spec for the
# other one.


@dataclass(frozen=True)
class Blob:
    """A layer or the configuration, and the archive member that holds it."""

    digest: str
    size_bytes: int
    member: str


@dataclass(frozen=True)
class Archive:
    """One image in a file; `reference` is the name it was saved under, empty if it has none."""

    path: Path
    reference: str
    digest: str
    kind: str
    manifest: bytes
    blobs: tuple[Blob, ...]

    @property
    def size_bytes(self) -> int:
        """The total bytes of its layers and configuration."""
        return sum(blob.size_bytes for blob in self.blobs)

    @contextmanager
    def open_blob(self, blob: Blob) -> Iterator[IO[bytes]]:
        with _open(self.path) as tar:
            content = tar.extractfile(blob.member)
            assert content is not None
            yield content


def read_archive(path: Path) -> Archive:
    """Read the image in a file. Raises ImageError if it is not one, or incomplete."""
    try:
        with _open(path) as tar:
            members = {entry.name.removeprefix("./"): entry for entry in tar if entry.isreg()}
            if "index.json" in members:
                return _read_layout(path, tar, members)
            if "manifest.json" in members:
                return _read_docker(path, tar, members)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ImageError(f"{path}: a part of the image is missing: {error}", HINT) from error
    raise ImageError(f"{path} is a tar file without an image", HINT)


@contextmanager
def _open(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path) as tar:
            yield tar
    except (tarfile.TarError, EOFError) as error:
        said = str(error).partition(":\n")[0]
        raise ImageError(f"{path} is not an image archive: {said}", HINT) from error
    except OSError as error:
        if error.strerror is None:  # gzip's own: a truncated file
            raise ImageError(f"{path} is damaged: {error}", HINT) from error
        raise ImageError(f"{path}: {error.strerror.lower()}", HINT) from error


def _read_layout(path: Path, tar: tarfile.TarFile, members: Members) -> Archive:
    described = json.loads(_read(tar, members, "index.json"))["manifests"][0]
    notes = described.get("annotations", {})
    names = [notes[name] for name in NAMES if ":" in notes.get(name, "")]
    manifest = _read(tar, members, _blob_name(described["digest"]))
    while "manifests" in json.loads(manifest):  # an index of one image and its attestations
        described = _choose(json.loads(manifest)["manifests"])
        manifest = _read(tar, members, _blob_name(described["digest"]))
    content = json.loads(manifest)
    parts = [*content["layers"], content["config"]]
    blobs = tuple(
        Blob(part["digest"], part["size"], members[_blob_name(part["digest"])].name)
        for part in parts
    )
    kind = content.get("mediaType") or described.get("mediaType") or MANIFEST
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    if digest != described["digest"]:
        raise ImageError(f"{path} is damaged: its manifest is not {described['digest']}", HINT)
    return Archive(path, names[0] if names else "", digest, kind, manifest, _unique(blobs))


def _choose(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the image itself; attestations have a platform called unknown."""
    return next(one for one in manifests if one.get("platform", {}).get("os") != "unknown")


def _read_docker(path: Path, tar: tarfile.TarFile, members: Members) -> Archive:
    """Read docker's older format: it has no registry manifest, so build one."""
    described = json.loads(_read(tar, members, "manifest.json"))[0]
    config = _hash(tar, members[described["Config"]])
    layers = [_hash(tar, members[name]) for name in described["Layers"]]
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _describe(config, CONFIG),
            "layers": [_describe(layer, LAYER) for layer in layers],
        }
    ).encode()
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    name = next(iter(described.get("RepoTags") or ()), "")
    return Archive(path, name, digest, MANIFEST, manifest, _unique((*layers, config)))


def _describe(blob: Blob, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": blob.digest, "size": blob.size_bytes}


def _hash(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Blob:
    content = tar.extractfile(member)
    assert content is not None
    with content:
        digest = hashlib.sha256()
        while piece := content.read(1 << 20):
            digest.update(piece)
    return Blob(f"sha256:{digest.hexdigest()}", member.size, member.name)


def _read(tar: tarfile.TarFile, members: Members, name: str) -> bytes:
    content = tar.extractfile(members[name])
    assert content is not None
    with content:
        return content.read()


def _blob_name(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _unique(blobs: tuple[Blob, ...]) -> tuple[Blob, ...]:
    """Return each blob once: an image may contain the same layer twice."""
    return tuple({blob.digest: blob for blob in blobs}.values())


@dataclass(frozen=True)
class SavedImage:
    """An image in a file; `digest` is the one it will have in a registry."""

    path: Path
    reference: str
    digest: str
    size_bytes: int


@dataclass(frozen=True)
class LoadedImage:
    """An image from a file in a registry, and how many bytes were uploaded."""

    reference: str
    size_bytes: int
    uploaded_bytes: int


def save_image(
    settings: ImageConfig, folder: Path, path: Path, environment: Mapping[str, str]
) -> SavedImage:
    """Write the project's image to a file that `load_image`, docker and podman read.

    Builds it if needed. An older file is replaced once the new one is whole. Raises ConfigError,
    ImageError.
    """
    if not path.parent.is_dir():
        raise ConfigError(str(path), f"folder {path.parent} not found")
    reference, builder = build_image(settings, folder, environment)
    unfinished = path.with_name(f"{path.name}.partial")
    unfinished.unlink(missing_ok=True)
    try:
        LOG.info(f"saving {reference}")
        builder.save(reference, unfinished)
        archive = read_archive(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return SavedImage(path, reference, archive.digest, path.stat().st_size)


def load_image(path: Path, settings: ImageConfig, environment: Mapping[str, str]) -> LoadedImage:
    """Push the image of a file to `settings.repository` under the tag it was saved with.

    Needs no docker. Returns `repository@sha256:…`; skips layers that the registry has. Raises
    ConfigError, ImageError, CloudError.
    """
    archive = read_archive(path)
    LOG.info(f"{path}: {archive.reference}, {format_bytes(archive.size_bytes)}, {archive.digest}")
    registry = open_registry(settings, environment)
    tag = split_reference(archive.reference)[1] or archive.digest.removeprefix("sha256:")[:16]
    pinned = f"{registry.repository}@{archive.digest}"
    there = registry.get_manifest(tag)
    if there and there.digest == archive.digest:
        LOG.info(f"{registry.repository}:{tag}: already in the registry")
        return LoadedImage(pinned, archive.size_bytes, 0)
    uploaded = _upload(archive, registry)
    registry.put_manifest(tag, archive.kind, archive.manifest)
    LOG.info(f"loaded {registry.repository}:{tag}: {format_bytes(uploaded)} uploaded")
    return LoadedImage(pinned, archive.size_bytes, uploaded)


def _upload(archive: Archive, registry: Registry) -> int:
    """Upload what the registry lacks; return the number of bytes."""
    uploaded = 0
    for blob in archive.blobs:
        if registry.has_blob(blob.digest):
            continue
        LOG.info(f"uploading {blob.digest[:19]}: {format_bytes(blob.size_bytes)}")
        registry.put_blob(blob.digest, blob.size_bytes, partial(archive.open_blob, blob))
        uploaded += blob.size_bytes
    return uploaded
