"""Backs up a backend as a tar stream with checksums, and restores a folder.

The stream contains the whole data folder: a snapshot of the database and its files. Hard links
keep the files during the transfer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO

from deployer.backend.data_folder import (
    ADDRESS_FILE,
    KEY_FILE,
    LOCK_FILE,
    LOG_FILE,
    FolderLock,
    read_key,
    write_key,
)
from deployer.backend.db.accounts import find_caller, new_key, replace_keys
from deployer.backend.db.rows import Connection
from deployer.backend.db.store import DATABASE, Database, read_only
from deployer.backend.request import is_full
from deployer.backend.storage.blob_folder import INCOMING_FOLDER, SIGNING_KEY_FILE, BlobFolder
from deployer.errors import BackendError
from deployer.text import format_bytes, format_count

PROOF_FILE = "copy.json"
PROOF_BLOCK_BYTES = 1 << 20
AGAIN = "type the command again"
COUNTED = {
    "sweep": "sweeps",
    "run": "runs",
    "row": "lines WHERE stream = 'history'",
    "file": "blobs",
}
# Files of the serving process, the signing key, and the database, which is sent as a copy.
LEFT_OUT = (
    *(ADDRESS_FILE, LOCK_FILE, LOG_FILE, INCOMING_FOLDER, SIGNING_KEY_FILE),
    *(DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"),
)
BLOCK_BYTES = 1 << 18
HELD = ".copy-"  # prefix of a folder of links during a transfer


# The proof of a copy is its last entry: the checksum of each file, and counts of the contents.
# A copy without it is incomplete, so a stream that was cut off anywhere is detected.


@dataclass(frozen=True)
class Copied:
    """The verified contents of a copy."""

    counts: Mapping[str, int]
    size_bytes: int

    def describe(self) -> str:
        counts = ", ".join(format_count(count, noun) for noun, count in self.counts.items())
        return f"{counts}, {format_bytes(self.size_bytes)}; checksums and counts agree"


def build_proof(digests: Mapping[str, str], database: Path) -> bytes:
    return json.dumps({"sha256": digests, "counts": _count(database)}).encode()


def check_copy(folder: Path) -> Copied:
    """Compare a folder with its proof and delete the proof; raises BackendError."""
    proof = folder / PROOF_FILE
    if not proof.exists():
        hint = f"{AGAIN}; an older deployer's backend sends no checksums: deployer backend up first"
        raise BackendError("the copy was cut off", hint)
    sent = json.loads(proof.read_bytes())
    proof.unlink()
    there = dict(_list_digests(folder))
    for name in sorted({*sent["sha256"], *there}):
        if sent["sha256"].get(name) != there.get(name):
            raise BackendError(f"the copy of {name} differs from what was sent", AGAIN)
    counts = _count(folder / DATABASE)
    if counts != sent["counts"]:
        raise BackendError(f"the copy has {counts} instead of {sent['counts']}", AGAIN)
    return Copied(counts, sum((folder / name).stat().st_size for name in there))


def _list_digests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*"):
        if path.is_file():
            digest = hashlib.sha256()
            with path.open("rb") as stream:
                while block := stream.read(PROOF_BLOCK_BYTES):
                    digest.update(block)
            yield str(path.relative_to(folder)), digest.hexdigest()


def _count(database: Path) -> dict[str, int]:
    try:
        with read_only(database) as db:
            [[good], *_] = db.execute("PRAGMA quick_check")
            if good != "ok":
                raise BackendError(f"the copy of the database is broken: {good}", AGAIN)
            rows = {
                noun: db.execute(f"SELECT COUNT(*) FROM {where}") for noun, where in COUNTED.items()
            }
            return {noun: int(found.fetchone()[0]) for noun, found in rows.items()}
    except sqlite3.DatabaseError as error:
        raise BackendError(f"the copy of the database is broken: {error}", AGAIN) from error


def stream_copy(folder: Path, blobs: BlobFolder) -> Iterator[bytes]:
    """Yield a backend's data as tar while agents continue. Raise NoSpace on a full disk."""
    with tempfile.TemporaryDirectory(prefix=HELD, dir=folder) as held:
        moment = Path(held)
        with blobs.collecting:
            target = moment / DATABASE
            with read_only(folder / DATABASE) as db:
                ((pages,), (page_bytes,)) = (
                    db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
                )
                blobs.check_space(pages * page_bytes)
                db.execute("VACUUM INTO ?", (str(target),))
            _hold(folder, moment)
        digests: dict[str, str] = {}
        for path in sorted(moment.rglob("*")):
            if path.is_file():
                yield from _pack(path, str(path.relative_to(moment)), digests)
        proof = moment / PROOF_FILE
        proof.write_bytes(build_proof(digests, moment / DATABASE))
        yield from _pack(proof, PROOF_FILE, {})
        yield b"\0" * (2 * tarfile.BLOCKSIZE)


def forget_cut_off(folder: Path) -> None:
    """Delete leftovers of transfers that were running when the server was killed."""
    for path in folder.glob(f"{HELD}*"):
        shutil.rmtree(path, ignore_errors=True)


def _hold(folder: Path, moment: Path) -> None:
    for name in os.listdir(folder):
        source = folder / name
        if name in LEFT_OUT or name.startswith("."):
            continue
        if source.is_dir():
            shutil.copytree(source, moment / name, copy_function=_link)
        else:
            _link(source, moment / name)


def _link(source: str | Path, target: str | Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # a file that is being received or deleted
        os.link(source, target)


def _pack(path: Path, name: str, digests: dict[str, str]) -> Iterator[bytes]:
    """Yield a file as a tar entry, and add its checksum to `digests`."""
    size = path.stat().st_size
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    yield entry.tobuf(tarfile.PAX_FORMAT)
    left, digest = size, hashlib.sha256()
    with path.open("rb") as stream:
        while left and (block := stream.read(min(BLOCK_BYTES, left))):
            left -= len(block)
            digest.update(block)
            yield block
    yield b"\0" * (left + -size % tarfile.BLOCKSIZE)
    digests[name] = digest.hexdigest()


def adopt_copy(stream: IO[bytes], data: Path) -> Copied:
    """Replace `data` with a streamed copy, but keep the folder's key and address.

    The folder changes only once the copy is complete and verified. Raises BackendError if the
    folder has sweeps or runs that the copy lacks, if it is being served, or if the stream is cut
    off.
    """
    data.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=f".{data.name}-", dir=data.parent) as made:
        fresh = Path(made) / "fresh"
        fresh.mkdir(mode=0o700)
        _unpack(stream, fresh)
        copied = check_copy(fresh)
        with FolderLock(data):
            own = _list_work(data) - _list_work(fresh)
            if own:
                said = f"{data} has sweeps and runs of its own ({len(own)}), which would be lost"
                raise BackendError(said, "deployer backend copy --data ANOTHER_FOLDER")
            _give_key(fresh, read_key(data) if (data / KEY_FILE).exists() else new_key())
            if (data / ADDRESS_FILE).exists():
                shutil.copy2(data / ADDRESS_FILE, fresh)
            # Replace `data` with `fresh`; delete `data` last, so that an interrupt loses nothing.
            before = Path(f"{made}-before")
            try:
                data.rename(before)
                fresh.rename(data)
            except BaseException:
                if not data.exists():
                    before.rename(data)
                raise
            shutil.rmtree(before, ignore_errors=True)
        return copied


def _unpack(stream: IO[bytes], fresh: Path) -> None:
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for entry in archive:
                _write(archive, entry, fresh)
    except (tarfile.TarError, HTTPException, OSError) as error:
        if is_full(error):
            hint = f"make room: df -h {fresh.parent.parent}"
            raise BackendError(f"not enough disk space for the copy: {error}", hint) from error
        raise BackendError(f"the copy was cut off: {error}", "type the command again") from error
    if not (fresh / DATABASE).exists() or not (fresh / KEY_FILE).exists():
        raise BackendError("the copy was cut off", "type the command again")


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, fresh: Path) -> None:
    """Write a regular file of a copy; refuse other entries. tarfile has filters since 3.11.4."""
    path = fresh / entry.name
    source = archive.extractfile(entry) if entry.isreg() else None
    if source is None or ".." in path.parts or not path.is_relative_to(fresh):
        raise BackendError(f"the copy has {entry.name!r}, which a backend never sends")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600, exist_ok=False)
    with path.open("wb") as target:
        shutil.copyfileobj(source, target, BLOCK_BYTES)


def _give_key(fresh: Path, key: str) -> None:
    """Replace the key of the copy's origin, since each folder has its own."""
    with _opened(fresh) as db:
        first = find_caller(db, read_key(fresh))
        if first is None:
            raise BackendError("the backend's key changed during the copy", AGAIN)
        replace_keys(db, first.user.name, key, time.time())
    write_key(fresh, key)


def _list_work(data: Path) -> set[str]:
    """Return the ids of all sweeps and runs; empty for a folder that was never served."""
    if not (data / DATABASE).exists():
        return set()
    with read_only(data / DATABASE) as db:
        rows = db.execute("SELECT name FROM sweeps UNION SELECT name FROM runs")
        return {str(name) for (name,) in rows}


@contextmanager
def _opened(data: Path) -> Iterator[Connection]:
    store = Database(data / DATABASE, migrating=True)  # the copy is not served yet
    try:
        with store.transaction() as db:
            yield db
    finally:
        store.close()
