"""Brings what is kept elsewhere to where runs see it, once.

A note there says what it was made from, and by it the next preload knows what is new. Files that it
brought and that are gone at the origin are deleted; others are left alone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from deployer.config import paths
from deployer.data.copy import Copied, Progress, copy
from deployer.data.folder_store import FolderStore
from deployer.data.sources import unpacking
from deployer.data.store import Store
from deployer.data.tree import ORIGIN_NOTE, Entry

# How much may have to be fetched again after a kill.
NOTED_FILES = 500
NOTED_BYTES = 256 << 20


@dataclass(frozen=True)
class Note:
    """The tag of each file at the origin, and the size of each file that was made of them."""

    origin: str
    tags: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)


def preload(
    origin: Store,
    found: Sequence[Entry],
    place: Store,
    archive: str,
    progress: Progress,
) -> Copied | None:
    """Copy what was found in `origin` to `place`; `archive` names the file to be unpacked, if any.

    None if all is there already. Raises DataError.
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
    """Return what a place was made from; None if nobody has written it down."""
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
) -> Copied:
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
    """Writes the note every now and then, so that a copy that is killed is not begun anew.

    Objects that others have put into a store have no checksum by which it could be told.
    """

    def __init__(self, place: Store, known: Note) -> None:
        self._place = place
        self._origin = known.origin
        self._tags, self._made = dict(known.tags), dict(known.made)
        self._files = self._size_bytes = 0
        self._lock = Lock()

    def __call__(self, entry: Entry) -> None:
        """Note a file that has come."""
        with self._lock:
            self._tags[entry.path] = entry.tag
            self._made[entry.path] = entry.size_bytes
            self._files += 1
            self._size_bytes += entry.size_bytes
            if self._files >= NOTED_FILES or self._size_bytes >= NOTED_BYTES:
                self._files = self._size_bytes = 0
                _write_note(self._place, Note(self._origin, self._tags, self._made))


def _fetch(origin: Store, archive: Entry, progress: Progress) -> FolderStore:
    """Copy an archive to this machine; one that was broken off goes on."""
    which = hashlib.sha256(f"{origin}\0{archive.identity}".encode()).hexdigest()[:16]
    packed = FolderStore(paths.data_folder() / "archives" / which)
    sizes = {entry.path: entry.size_bytes for entry in packed.list_entries()}
    if sizes == {archive.path: archive.size_bytes} and not packed.is_unfinished():
        return packed
    copy(origin, packed, progress, [archive])
    return packed
