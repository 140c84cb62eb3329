"""Files that the server keeps of a run as stores that can only be read: of artifacts, or saved."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence

from deployer.data.tree import Entry, check_path
from deployer.errors import DataError, WandbError
from deployer.model import SweepPath
from deployer.outputs.read_only import ReadOnlyStore
from deployer.transience import PASSING_STATUSES
from deployer.wandb_api.artifacts import (
    ArtifactFile,
    RunArtifact,
    list_files,
    list_saved_files,
    read_file,
)
from deployer.wandb_api.client import Client


class ServedFiles(ReadOnlyStore):
    """Files by their addresses, which expire. Where only MD5 is known, `read` compares it."""

    parallel = 4

    def __init__(self, client: Client, files: Sequence[ArtifactFile]) -> None:
        self._client = client
        self._files = {check_path(file.path): file for file in files}

    @abstractmethod
    def list_again(self) -> Sequence[ArtifactFile]:
        """Return the files with new addresses."""

    def list_entries(self) -> Sequence[Entry]:
        """Return every file."""
        return [
            Entry(path, file.size_bytes, file.sha256 or None, tag=file.md5)
            for path, file in sorted(self._files.items())
        ]

    def checksum(self, path: str) -> str | None:
        """Return the SHA-256 that the run has computed, if it did."""
        return self._files[path].sha256 or None

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes; raises DataError at the end if their MD5 is wrong."""
        file = self._files[path]
        if file.sha256 or not file.md5:  # whoever writes it compares, or nobody can
            yield from self._fetch(path, offset)
            return
        digest, position = hashlib.md5(usedforsecurity=False), 0
        for chunk in self._fetch(path, 0):
            digest.update(chunk)
            if new := chunk[max(0, offset - position) :]:  # the others are there, and count too
                yield new
            position += len(chunk)
        if digest.hexdigest() != file.md5:
            raise DataError(f"{self}: {path} has come with other bytes", "try again", passing=True)

    def _fetch(self, path: str, offset: int) -> Iterator[bytes]:
        """Yield bytes from the file's address, or from a new one where that has expired."""
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
        """Name the artifact."""
        return f"artifact {self._artifact.name}:v{self._artifact.version}"

    def list_again(self) -> Sequence[ArtifactFile]:
        """Ask for the files of the artifact."""
        return list_files(self._client, self._artifact.artifact_id)


class SavedFiles(ServedFiles):
    """What a run has saved with `wandb.save`."""

    def __init__(self, client: Client, path: SweepPath, run_id: str) -> None:
        super().__init__(client, list_saved_files(client, path, run_id))
        self._path, self._run_id = path, run_id

    def describe(self) -> str:
        """Name the run."""
        return f"files of run {self._run_id}"

    def list_again(self) -> Sequence[ArtifactFile]:
        """Ask for the files of the run."""
        return list_saved_files(self._client, self._path, self._run_id)


class _Expired(Exception):
    """The server no longer takes a file's address."""
