"""Data sets: the user's sources, where each set is kept, and preloading."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from deployer.config import paths
from deployer.config.data import URL, DataSet
from deployer.data.addresses import open_address
from deployer.data.archive import is_archive, unpack, warn_if_not_unpacked
from deployer.data.copy import CopyResult, Progress, copy
from deployer.data.folder_store import FolderStore, build_tag
from deployer.data.store import ORIGIN_NOTE, Entry, Store
from deployer.errors import ConfigError, DataError

LOG = logging.getLogger(__name__)

SOURCE_HINT = "name a folder, a file, an archive, or s3://BUCKET/FOLDER"
ADDRESS_HINT = "s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; keys come from the environment"
# The most files to fetch again after a kill.
NOTED_FILES = 500
NOTED_BYTES = 256 << 20


class FileStore(FolderStore):
    """One local file, as a tree in which it is called `name`."""

    def __init__(self, file: Path, name: str) -> None:
        super().__init__(file.parent)
        self.file = file
        self._name = name

    def describe(self) -> str:
        return str(self.file)

    def list_entries(self) -> Sequence[Entry]:
        found = self.file.stat()
        self._listed = {self._name: build_tag(found)}
        return [Entry(self._name, found.st_size, tag=build_tag(found))]

    def _place(self, path: str) -> Path:
        return self.file if path == self._name else super()._place(path)


@contextmanager
def open_source(source: str, name: str, unpacked: bool) -> Iterator[Store]:
    """Open the store `source` until the block ends; unpack an archive if `unpacked`.

    A single file is called `name` in the tree; empty means its own name. Raises DataError.
    """
    if not source.strip():
        raise ConfigError("SOURCE", "is empty", SOURCE_HINT)
    if URL.fullmatch(source):
        with open_address(source) as store:
            yield store
        return
    if "://" in source:  # not shown: it may contain a key
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
        raise DataError(f"{source}: file or folder not found", SOURCE_HINT)


@contextmanager
def unpacking(archive: Path) -> Iterator[Store]:
    """Unpack an archive into a folder that exists until the block ends."""
    which = hashlib.sha256(str(archive.resolve()).encode()).hexdigest()[:16]
    scratch = paths.data_folder() / "unpacking" / which
    remove_abandoned(scratch.parent)
    with FolderStore(scratch).copying():  # prevents two at once
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
    for scratch in folder.iterdir() if folder.is_dir() else ():
        if not FolderStore(scratch).is_locked():
            shutil.rmtree(scratch, ignore_errors=True)


def find_place(data: DataSet, folder: Path) -> Path:
    """Return the local folder where runs see a data set; `folder` contains deployer.yaml.

    A set kept elsewhere has a copy in the state folder: one per address, and for sets in a cluster
    one per project.
    """
    if data.folder is not None:
        return (folder / Path(data.folder).expanduser()).absolute()
    origin = [data.url, data.endpoint_url or ""] if data.url else [str(folder), data.name]
    told_apart = hashlib.sha256("\0".join(map(str, origin)).encode()).hexdigest()[:8]
    return paths.data_folder() / f"{data.name}-{told_apart}"


def open_kept(
    data: DataSet, folder: Path, credentials: Mapping[str, str] | None = None
) -> Store | None:
    """Return the location of a data set outside of any cluster; None if it is in one.

    `credentials` are for an object store, instead of this machine's own.
    """
    if data.url:
        return open_address(find_root(data), data.endpoint_url, credentials)
    if data.folder is not None:
        return FolderStore(find_place(data, folder))
    return None


def find_root(data: DataSet) -> str:
    """Return the address of the data set's folder; for an archive, of its parent folder."""
    url = data.url or ""
    return url.rpartition("/")[0] if find_archive(data) else url


def find_archive(data: DataSet) -> str:
    """Return the name of the archive that a data set is kept as; else empty."""
    path = (data.url or "").split("://")[-1].partition("/")[2]
    name = path.rpartition("/")[2]
    return name if is_archive(name) else ""


def check_here(data: DataSet, folder: Path) -> None:
    """Raise DataError unless the data set is on this machine and complete."""
    place = find_place(data, folder)
    verb = "preload" if data.url else "put SOURCE"
    hint = f"deployer data {verb} {data.name}"
    if FolderStore(place).is_unfinished():
        raise DataError(f"data set {data.name}: the copy to {place} was interrupted", hint)
    if not place.is_dir() or not any(place.iterdir()):
        raise DataError(f"data set {data.name} is not on this machine: {place} is empty", hint)


# Copies remote data to where runs see it, once. A note there records its origin, so that the next
# preload can detect changes. Preloaded files that are gone at the origin are deleted; others are
# left alone.


@dataclass(frozen=True)
class Note:
    """The tag of each file at the origin, and the size of each file made from them."""

    origin: str
    tags: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)


def preload(
    origin: Store,
    found: Sequence[Entry],
    place: Store,
    archive: str,
    progress: Progress,
) -> CopyResult | None:
    """Copy the `found` files of `origin` to `place`; `archive` names the file to unpack, if any.

    None if everything is up to date. Raises DataError.
    """
    known = read_note(place)
    wanted = Note(str(origin), {entry.path: entry.tag for entry in found})
    if _is_there(place, known, wanted):
        return None
    if not archive:
        return _bring(origin, place, found, known, wanted, progress)
    packed = _fetch(origin, found[0], progress)
    with unpacking(packed.root / archive) as files:
        copied = _bring(files, place, files.list_entries(), known, wanted, progress)
    shutil.rmtree(packed.root)
    return copied


def read_note(place: Store) -> Note | None:
    """Return the origin of a preloaded copy; None if there is no note."""
    if place.checksum(ORIGIN_NOTE) is None:
        return None
    try:
        return Note(**json.loads(b"".join(place.read(ORIGIN_NOTE))))
    except (ValueError, TypeError):
        return None


def _is_there(place: Store, known: Note | None, wanted: Note) -> bool:
    if known is None or replace(known, made={}) != wanted or place.is_unfinished():
        return False
    sizes = {entry.path: entry.size_bytes for entry in place.list_entries()}
    return all(sizes.get(path) == size_bytes for path, size_bytes in known.made.items())


def _bring(
    origin: Store,
    place: Store,
    found: Sequence[Entry],
    known: Note | None,
    wanted: Note,
    progress: Progress,
) -> CopyResult:
    if known is None or known.origin != wanted.origin:
        known = Note(wanted.origin)
    there = {entry.path: entry.size_bytes for entry in place.list_entries()}
    new = [
        entry
        for entry in found
        if known.tags.get(entry.path) != entry.tag or there.get(entry.path) != entry.size_bytes
    ]
    copied = copy(origin, place, progress, new, note=_Notebook(place, known))
    made = {entry.path: entry.size_bytes for entry in found}
    for path in known.made.keys() - made.keys():
        place.delete(path)
    with place.copying():
        _write_note(place, replace(wanted, made=made))
    return replace(
        copied,
        files=len(found),
        size_bytes=sum(made.values()),
        equal_files=copied.equal_files + len(found) - len(new),
    )


def _write_note(place: Store, note: Note) -> None:
    held = json.dumps(vars(note)).encode()
    entry = Entry(ORIGIN_NOTE, len(held), hashlib.sha256(held).hexdigest())
    place.write(entry, [held])
    place.finish(entry)


class _Notebook:
    """Writes the note periodically, so that a killed copy can resume.

    Objects uploaded by others have no checksum, so only the note shows that they were copied.
    """

    def __init__(self, place: Store, known: Note) -> None:
        self._place = place
        self._origin = known.origin
        self._tags, self._made = dict(known.tags), dict(known.made)
        self._files = self._size_bytes = 0
        self._lock = Lock()

    def __call__(self, entry: Entry) -> None:
        with self._lock:
            self._tags[entry.path] = entry.tag
            self._made[entry.path] = entry.size_bytes
            self._files += 1
            self._size_bytes += entry.size_bytes
            if self._files >= NOTED_FILES or self._size_bytes >= NOTED_BYTES:
                self._files = self._size_bytes = 0
                _write_note(self._place, Note(self._origin, self._tags, self._made))


def _fetch(origin: Store, archive: Entry, progress: Progress) -> FolderStore:
    """Copy an archive to this machine; resume an interrupted copy."""
    which = hashlib.sha256(f"{origin}\0{archive.identity}".encode()).hexdigest()[:16]
    packed = FolderStore(paths.data_folder() / "archives" / which)
    sizes = {entry.path: entry.size_bytes for entry in packed.list_entries()}
    if sizes == {archive.path: archive.size_bytes} and not packed.is_unfinished():
        return packed
    copy(origin, packed, progress, [archive])
    return packed
