"""The data sets of a cluster, each as a store that runs a loader while it is open."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deployer.config.data import DataSet
from deployer.config.kubernetes import ClusterConfig, NfsFolder
from deployer.data.store import Entry, Store, is_own
from deployer.errors import DataError, KubeError
from deployer.executors.base import DataPlaces
from deployer.executors.kubernetes.data.loader import open_loader
from deployer.executors.kubernetes.data.loader_client import LoaderClient, SmallFile
from deployer.executors.kubernetes.data.mounts import (
    PREFIX,
    delete_claim,
    ensure_claim,
    find_outputs,
    name_claim,
)
from deployer.executors.kubernetes.manifest_builder import Target
from deployer.executors.kubernetes.manifests.build import build_nfs
from deployer.executors.kubernetes.manifests.templates import load_templates
from deployer.kube.client import Kube
from deployer.kube.objects import SECRET, Manifest, build_hash, build_name

BLOCK_BYTES = 4 << 20  # resent after a lost connection, at most
LOG = logging.getLogger(__name__)
INLINE_HINT = "nfs: {…, inline: true} in deployer.yaml, or ask an administrator for a claim"
AMAZON_KEYS = "--from-env-file=FILE with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
GOOGLE_KEYS = "--from-file=key.json=FILE, a service account's key"


class VolumeStore(Store):
    """The files of the volume that `client` reaches, or of a folder on it.

    `close` ends the loader of the client.
    """

    parallel = 4
    batches = True

    def __init__(self, client: LoaderClient, where: str, close: Callable[[], None]) -> None:
        self._client = client
        self._where = where
        self._close = close

    def describe(self) -> str:
        return self._where

    def list_entries(self) -> Sequence[Entry]:
        """Return every file; checksums are computed on request."""
        return [
            Entry(str(one["path"]), int(one["size_bytes"]), tag=str(one["tag"]))
            for one in self._client.list_entries()
            if not is_own(str(one["path"]))
        ]

    def checksum(self, path: str) -> str | None:
        return self._client.get_checksum(path)

    def list_checksums(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        return self._client.get_checksums(paths)

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield the file's bytes, resuming after lost connections."""
        return self._client.read(path, offset)

    def read_many(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, bytes]]:
        paths = [entry.path for entry in entries]
        return zip(entries, self._client.read_many(paths), strict=True)

    def write_many(self, files: Iterable[tuple[Entry, bytes]]) -> Set[str]:
        """Write small files in one request; the loader verifies each."""
        sized = [(entry, held) for entry, held in files if len(held) == entry.size_bytes]
        return self._client.write_many(
            [SmallFile(entry.path, held, entry.sha256) for entry, held in sized]
        )

    def partial_size(self, entry: Entry) -> int:
        return self._client.get_partial_size(entry.identity)

    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        """Append to the partial file; each chunk on the volume survives a later failure."""
        if entry.size_bytes == 0:
            self._client.write(entry.identity, 0, b"")
        for block in _join(chunks):
            self._client.write(entry.identity, offset, block)
            offset += len(block)

    def finish(self, entry: Entry) -> bool:
        return self._client.finish(entry.path, entry.identity, entry.size_bytes, entry.sha256)

    def delete(self, path: str) -> None:
        """Delete the file, and parent folders that become empty."""
        self._client.delete(path)

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Mark the volume; a loader accepts one copy at a time."""
        self._client.begin()
        yield
        self._client.end()

    def is_unfinished(self) -> bool:
        return self._client.is_unfinished()

    def delete_all(self) -> bool:
        """Delete everything through the loader, including partial files."""
        return self._client.clear()

    def close(self) -> None:
        self._close()


def _join(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield larger blocks, to save requests."""
    block = bytearray()
    for chunk in chunks:
        block += chunk
        while len(block) >= BLOCK_BYTES:
            yield bytes(block[:BLOCK_BYTES])
            del block[:BLOCK_BYTES]
    if block:
        yield bytes(block)


def open_volume(
    kube: Kube,
    cluster: ClusterConfig,
    data: DataSet,
    folder: Path,
    size_bytes: int | None = None,
) -> VolumeStore:
    """Open the volume of a data set; its loader runs until the store is closed.

    A missing claim is created with the size of the data set, or `size_bytes`; not if that is None.
    Raises ConfigError, KubeError, DataError.
    """
    if data.nfs:
        where, source = f"nfs {data.nfs.server}:{data.nfs.path}", ensure_nfs(kube, data, data.nfs)
    else:
        claim = name_claim(data, folder)
        where, source = f"claim {claim}", {"persistentVolumeClaim": {"claimName": claim}}
        if ensure_claim(kube, claim, data, size_bytes):
            LOG.info(f"made PersistentVolumeClaim {claim} in namespace {kube.namespace}")
    with ExitStack() as stack:
        client = stack.enter_context(open_loader(kube, cluster, source, where, data.sub_path or ""))
        return VolumeStore(client, where, stack.pop_all().close)


def ensure_nfs(kube: Kube, data: DataSet, nfs: NfsFolder) -> Manifest:
    """Return an NFS folder as a pod's volume: inline, or a claim on it, created once.

    `down --all` deletes the claim and its PersistentVolume. Raises KubeError.
    """
    if nfs.inline:
        return {"nfs": {"server": nfs.server, "path": nfs.path}}
    told_apart = build_hash(*(part.encode() for part in (kube.namespace, nfs.server, nfs.path)))
    name = build_name(f"{PREFIX}-{data.name}-{told_apart}")
    for manifest in build_nfs(load_templates(), name, nfs, "", kube.namespace):
        try:
            kube.create_once(manifest)
        except KubeError as error:
            if error.forbidden:
                raise KubeError(error.message, INLINE_HINT, error.status) from error
            raise
    return {"persistentVolumeClaim": {"claimName": name}}


def read_secret(kube: Kube, name: str, url: str = "") -> dict[str, str]:
    """Return the content of a Secret, for the store at `url`.

    Raises DataError if there is none, KubeError.
    """
    found = kube.get(SECRET, name)
    if found is None:
        keys = GOOGLE_KEYS if url.startswith("gs://") else AMAZON_KEYS
        raise DataError(
            f"Secret {name} not found in namespace {kube.namespace}",
            kube.with_context(f"kubectl create secret generic {name} -n {kube.namespace} {keys}"),
        )
    encoded = found.get("data") or {}
    return {
        key: base64.b64decode(value).decode(errors="replace").strip()
        for key, value in encoded.items()
    }


class ClusterData(DataPlaces):
    """Accesses volumes through loader pods."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def open(self, data: DataSet, size_bytes: int | None = None) -> Store:
        """Open a data set's volume through a loader pod, which ends when the store is closed."""
        target = self._target
        image = target.builder.with_image()
        return open_volume(target.kube, image, data, target.project.folder, size_bytes)

    def delete(self, data: DataSet) -> bool:
        """Delete the claim if we created it, else the files on the volume."""
        kube, claim = self._target.kube, name_claim(data, self._target.project.folder)
        if data.nfs or not delete_claim(kube, claim):
            return super().delete(data)
        LOG.info(f"deleted PersistentVolumeClaim {claim} in namespace {kube.namespace}")
        return True

    def read_credentials(self, data: DataSet) -> Mapping[str, str] | None:
        """Return the content of the data set's Secret; raises DataError if there is none."""
        if data.secret is None:
            return None
        return read_secret(self._target.kube, data.secret, data.url or "")

    def open_outputs(self) -> Store | None:
        """Open the volume of checkpoints, if it outlives pods, through a loader pod."""
        target = self._target
        volume = find_outputs(target.project.kubernetes, target.builder.templates)
        return self.open(volume) if volume else None
