"""The places where runs keep outputs, as read-only stores."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deployer.config.paths import outputs_folder
from deployer.data.folder_store import FolderStore
from deployer.data.store import Entry, Store, check_path
from deployer.errors import DataError, WandbError
from deployer.model import SweepPath
from deployer.waiting import PASSING_STATUSES
from deployer.wandb_api.artifacts import (
    ArtifactFile,
    RunArtifact,
    list_files,
    list_saved_files,
    read_file,
)
from deployer.wandb_api.client import Client

LOG = logging.getLogger(__name__)


class ReadOnlyStore(Store):
    """Refuses every change."""

    def partial_size(self, entry: Entry) -> int:
        raise self._refuse(entry.path)

    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        del chunks, offset
        raise self._refuse(entry.path)

    def finish(self, entry: Entry) -> bool:
        raise self._refuse(entry.path)

    def delete(self, path: str) -> None:
        raise self._refuse(path)

    def _refuse(self, path: str) -> DataError:
        return DataError(f"{self}: {path} is read-only: files of a run cannot be changed")


class ServedFiles(ReadOnlyStore):
    """Files with addresses that expire. If only MD5 is known, `read` verifies it."""

    parallel = 4

    def __init__(self, client: Client, files: Sequence[ArtifactFile]) -> None:
        self._client = client
        self._files = {check_path(file.path): file for file in files}

    @abstractmethod
    def list_again(self) -> Sequence[ArtifactFile]:
        """Return the files with new addresses."""

    def list_entries(self) -> Sequence[Entry]:
        return [
            Entry(path, file.size_bytes, file.sha256 or None, tag=file.md5)
            for path, file in sorted(self._files.items())
        ]

    def checksum(self, path: str) -> str | None:
        return self._files[path].sha256 or None

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes; raises DataError at the end if their MD5 differs."""
        file = self._files[path]
        if file.sha256 or not file.md5:  # the writer verifies it, or there is no checksum
            yield from self._fetch(path, offset)
            return
        digest, position = hashlib.md5(usedforsecurity=False), 0
        for chunk in self._fetch(path, 0):
            digest.update(chunk)
            if new := chunk[max(0, offset - position) :]:  # earlier bytes are only hashed
                yield new
            position += len(chunk)
        if digest.hexdigest() != file.md5:
            raise DataError(
                f"{self}: {path} does not match its checksum", "try again", passing=True
            )

    def _fetch(self, path: str, offset: int) -> Iterator[bytes]:
        """Yield bytes from the file's address, or from a new one if that has expired."""
        try:
            yield from self._read(self._files[path], offset)
        except _Expired:
            again = next((file for file in self.list_again() if file.path == path), None)
            if again is None:
                raise DataError(f"{self}: {path} is gone", "type the command again") from None
            try:
                yield from self._read(again, offset)
            except _Expired as error:
                raise DataError(f"{self}: {path}: {error}", "type the command again") from error

    def _read(self, file: ArtifactFile, offset: int) -> Iterator[bytes]:
        try:
            yield from read_file(self._client, file.url, offset)
        except WandbError as error:
            if error.status in (401, 403, 404, 410):
                raise _Expired(error.message) from error
            passing = error.status in PASSING_STATUSES
            raise DataError(error.message, error.hint, passing=passing) from error


class ArtifactStore(ServedFiles):
    """One version of an artifact."""

    def __init__(self, client: Client, artifact: RunArtifact) -> None:
        super().__init__(client, artifact.files)
        self._artifact = artifact

    def describe(self) -> str:
        return f"artifact {self._artifact.name}:v{self._artifact.version}"

    def list_again(self) -> Sequence[ArtifactFile]:
        return list_files(self._client, self._artifact.artifact_id)


class SavedFiles(ServedFiles):
    """The files that a run saved with `wandb.save`."""

    def __init__(self, client: Client, path: SweepPath, run_id: str) -> None:
        super().__init__(client, list_saved_files(client, path, run_id))
        self._path, self._run_id = path, run_id

    def describe(self) -> str:
        return f"files of run {self._run_id}"

    def list_again(self) -> Sequence[ArtifactFile]:
        return list_saved_files(self._client, self._path, self._run_id)


class _Expired(Exception):
    """The server no longer accepts a file's address."""


class RunStore(ReadOnlyStore):
    """Combines stores, each under a folder; for equal paths the first store wins."""

    def __init__(self, parts: Mapping[str, Store]) -> None:
        self._parts = parts
        self._places: dict[str, tuple[Store, str]] = {}
        self.parallel = min((store.parallel for store in parts.values()), default=1)

    def describe(self) -> str:
        return ", ".join(store.describe() for store in self._parts.values())

    def list_entries(self) -> Sequence[Entry]:
        found: dict[str, Entry] = {}
        for folder, store in self._parts.items():
            for entry in store.list_entries():
                path = check_path(f"{folder}{entry.path}")
                if path not in found:
                    found[path] = replace(entry, path=path)
                    self._places[path] = (store, entry.path)
        return [found[path] for path in sorted(found)]

    def close(self) -> None:
        for store in self._parts.values():
            store.close()

    def checksum(self, path: str) -> str | None:
        store, inner = self._places[path]
        return store.checksum(inner)

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        store, inner = self._places[path]
        return store.read(inner, offset)


class SharedVolume:
    """A context manager for the store, if any, that `open_store` opens on first use."""

    def __init__(self, open_store: Callable[[], Store | None]) -> None:
        self._open_store = open_store
        self._store: Store | None = None
        self._runs: dict[str, list[Entry]] | None = None

    def __enter__(self) -> SharedVolume:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store:
            self._store.close()

    def open_run(self, sweep_id: str, run_id: str) -> Store:
        if self._runs is None:
            self._store = self._open_store()
            self._runs = _split(self._store.list_entries() if self._store else ())
        return RunPart(self._store, f"{sweep_id}/{run_id}", self._runs)


class RunPart(ReadOnlyStore):
    """The files of one run on a volume, whose store other runs share."""

    def __init__(self, store: Store | None, folder: str, runs: dict[str, list[Entry]]) -> None:
        self._store = store
        self._folder = folder
        self._entries = runs.get(folder, [])
        self.parallel = store.parallel if store else 1

    def describe(self) -> str:
        return f"{self._store}: {self._folder}"

    def list_entries(self) -> Sequence[Entry]:
        return self._entries

    def checksum(self, path: str) -> str | None:
        return self._store.checksum(f"{self._folder}/{path}") if self._store else None

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        assert self._store is not None  # without one there is no file
        return self._store.read(f"{self._folder}/{path}", offset)


def _split(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return the files of each run, by SWEEP_ID/RUN_ID; ignore files outside of run folders."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        sweep_id, _, rest = entry.path.partition("/")
        run_id, _, path = rest.partition("/")
        if path:
            found[f"{sweep_id}/{run_id}"].append(replace(entry, path=path))
    return dict(found)


class RunFolder(FolderStore):
    """A run's own folder. Links to files are followed, even out of it.

    Links to folders and broken links are left out.
    """

    def list_entries(self) -> Sequence[Entry]:
        return sorted(self._find_files(), key=lambda entry: entry.path)

    def _find_files(self) -> Iterator[Entry]:
        for inner, _, names in os.walk(self.root):
            for file in (Path(inner, name) for name in names):
                if file.is_file():
                    path = check_path(file.relative_to(self.root).as_posix())
                    found = file.stat()
                    yield Entry(path, found.st_size, tag=f"{found.st_mtime_ns}")

    def describe_links(self) -> Iterator[str]:
        root = self.root.resolve()
        for inner, folders, names in os.walk(self.root):
            for link in (Path(inner, name) for name in (*folders, *names)):
                path, leads_to = link.relative_to(self.root), link.resolve()
                if not link.is_symlink():
                    continue
                if not link.is_file():
                    what = "a folder" if link.is_dir() else "nothing"
                    yield f"skipping {path}: it is a link to {what} ({os.readlink(link)})"
                elif not leads_to.is_relative_to(root):
                    yield f"{path} is a link: copying its target {leads_to}"


def open_run_here(sweep_id: str, run_id: str) -> Store:
    """Open the local outputs of a run, and log what happens to its links."""
    found = RunFolder(_folder_of(sweep_id) / check_path(run_id))
    for line in found.describe_links():
        LOG.info(f"run {run_id}: {line}")
    return found


def measure_here(sweep_id: str) -> int:
    """Return how many bytes a sweep's runs have written locally."""
    found = (path.lstat() for path in _folder_of(sweep_id).rglob("*") if path.is_file())
    return sum(one.st_size for one in found)


def delete_here(sweep_id: str) -> bool:
    """Delete a sweep's local outputs; return True if there was a folder."""
    folder = _folder_of(sweep_id)
    if not folder.is_dir():
        return False
    shutil.rmtree(folder)
    return True


def _folder_of(sweep_id: str) -> Path:
    return outputs_folder() / check_path(sweep_id)
