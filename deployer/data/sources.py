"""What a user brings: a folder, a file, an archive that is unpacked, or an address."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deployer.config import paths
from deployer.config.sections.data import URL
from deployer.data.addresses import open_address
from deployer.data.archive import is_archive, unpack, warn_if_not_unpacked
from deployer.data.folder_store import FolderStore, build_tag
from deployer.data.store import Store
from deployer.data.tree import Entry
from deployer.errors import ConfigError, DataError

LOG = logging.getLogger(__name__)

SOURCE_HINT = "name a folder, a file, an archive, or s3://BUCKET/FOLDER"
ADDRESS_HINT = "s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; keys come from the environment"


class FileStore(FolderStore):
    """One file of this machine, as a tree in which it has the name `name`."""

    def __init__(self, file: Path, name: str) -> None:
        super().__init__(file.parent)
        self.file = file
        self._name = name

    def describe(self) -> str:
        """Name the file."""
        return str(self.file)

    def list_entries(self) -> Sequence[Entry]:
        """Return the file alone."""
        found = self.file.stat()
        self._listed = {self._name: build_tag(found)}
        return [Entry(self._name, found.st_size, tag=build_tag(found))]

    def _place(self, path: str) -> Path:
        return self.file if path == self._name else super()._place(path)


@contextmanager
def open_source(source: str, name: str, unpacked: bool) -> Iterator[Store]:
    """Open what `source` names until the block ends; an archive is unpacked if it is to be.

    A single file has the name `name` in the tree, its own if that is empty. Raises DataError.
    """
    if not source.strip():
        raise ConfigError("SOURCE", "is empty", SOURCE_HINT)
    if URL.fullmatch(source):
        with open_address(source) as store:
            yield store
        return
    if "://" in source:  # not repeated: it may hold a key
        raise ConfigError("SOURCE", "is not the address of an object store", ADDRESS_HINT)
    path = Path(source).expanduser()
    if path.is_dir():
        yield FolderStore(path)
    elif path.is_file() and unpacked and is_archive(path.name):
        with unpacking(path) as store:
            yield store
    elif path.is_file():
        if unpacked and (warning := warn_if_not_unpacked(path.name)):
            LOG.info(warning)
        yield FileStore(path, name or path.name)
    elif path.exists():
        raise DataError(f"{source}: is neither a file nor a folder", SOURCE_HINT)
    else:
        raise DataError(f"{source}: there is no such file or folder", SOURCE_HINT)


@contextmanager
def unpacking(archive: Path) -> Iterator[Store]:
    """Unpack an archive into a folder that is there until the block ends."""
    which = hashlib.sha256(str(archive.resolve()).encode()).hexdigest()[:16]
    scratch = paths.data_folder() / "unpacking" / which
    remove_abandoned(scratch.parent)
    with FolderStore(scratch).copying():  # two at once would be in each other's way
        shutil.rmtree(scratch / "files", ignore_errors=True)
        (scratch / "files").mkdir()
        LOG.info(f"unpacking {archive}")
        try:
            unpack(archive, scratch / "files")
            yield FolderStore(scratch / "files")
        finally:
            shutil.rmtree(scratch / "files", ignore_errors=True)
    shutil.rmtree(scratch, ignore_errors=True)


def remove_abandoned(folder: Path) -> None:
    """Remove what commands that were killed have unpacked there."""
    for scratch in folder.iterdir() if folder.is_dir() else ():
        if not FolderStore(scratch).is_locked():
            shutil.rmtree(scratch, ignore_errors=True)
