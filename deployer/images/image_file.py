"""An image in a file: written where there is a tool, pushed from where there is none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deployer.config.sections.image import ImageConfig
from deployer.config.sections.image_reference import split_reference
from deployer.errors import ConfigError
from deployer.images.image import build_image, open_registry
from deployer.images.image_archive import Archive, read_archive
from deployer.images.registry import Registry
from deployer.text import format_bytes

LOG = logging.getLogger(__name__)


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


def save_image(
    settings: ImageConfig, folder: Path, path: Path, environment: Mapping[str, str]
) -> SavedImage:
    """Write the project's image to a file that `load_image`, docker and podman read.

    Builds it if needed. An older file is replaced once the new one is whole. Raises ConfigError,
    ImageError.
    """
    if not path.parent.is_dir():
        raise ConfigError(str(path), f"there is no folder {path.parent}")
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

    Needs no docker. Returns `repository@sha256:…`; what the registry has is not uploaded again.
    Raises ConfigError, ImageError, CloudError.
    """
    archive = read_archive(path)
    LOG.info(f"{path}: {archive.reference}, {format_bytes(archive.size_bytes)}, {archive.digest}")
    registry = open_registry(settings, environment)
    tag = split_reference(archive.reference)[1] or archive.digest.removeprefix("sha256:")[:16]
    pinned = f"{registry.repository}@{archive.digest}"
    there = registry.get_manifest(tag)
    if there and there.digest == archive.digest:
        LOG.info(f"{registry.repository}:{tag}: the registry has it already")
        return LoadedImage(pinned, archive.size_bytes, 0)
    uploaded = _upload(archive, registry)
    registry.put_manifest(tag, archive.kind, archive.manifest)
    LOG.info(f"loaded {registry.repository}:{tag}: {format_bytes(uploaded)} uploaded")
    return LoadedImage(pinned, archive.size_bytes, uploaded)


def _upload(archive: Archive, registry: Registry) -> int:
    """Upload what the registry does not have; return how many bytes that was."""
    uploaded = 0
    for blob in archive.blobs:
        if registry.has_blob(blob.digest):
            continue
        LOG.info(f"uploading {blob.digest[:19]}: {format_bytes(blob.size_bytes)}")
        registry.put_blob(blob.digest, blob.size_bytes, partial(archive.open_blob, blob))
        uploaded += blob.size_bytes
    return uploaded
