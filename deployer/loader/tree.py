"""A tree of files below one folder, and its errors.

Partial files are in a folder at the root, which exists while a copy is incomplete.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
from typing import BinaryIO, Callable, Dict, Iterator, Optional, Tuple, Union

# System errors -> HTTP status and error code.
SYSTEM: Dict[int, Tuple[int, str]] = {
    errno.ENOENT: (404, "missing"),
    errno.ENOTDIR: (409, "in-the-way"),
    errno.EISDIR: (409, "in-the-way"),
    errno.ENOTEMPTY: (409, "in-the-way"),
    errno.EACCES: (403, "forbidden"),
    errno.EPERM: (403, "forbidden"),
    errno.EROFS: (403, "forbidden"),
    errno.ENAMETOOLONG: (400, "bad-path"),
    errno.ENOSPC: (507, "full"),
    errno.EDQUOT: (507, "full"),
}
BLOCK_BYTES = 1 << 20
PARTIAL_FOLDER = ".deployer-partial"
UNUSABLE = ("", ".", "..")
IDENTITY = re.compile("[0-9a-f]{64}")
FileEntry = Dict[str, Union[str, int]]


class RequestRefusal(Exception):
    """A refused request: HTTP status, error code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def refuse_error(error: OSError) -> RequestRefusal:
    """Convert an error of the file system to a refusal."""
    status, code = SYSTEM.get(error.errno or 0, (500, "failed"))
    return RequestRefusal(status, code, error.strerror or str(error))


class Tree:
    """Files below `root`; paths are relative, with slashes. Never accesses files outside."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._marks = os.path.join(self.root, PARTIAL_FOLDER)
        self._lock: Optional[int] = None
        self._unsynced = False

    def list_entries(self) -> Iterator[FileEntry]:
        """Yield every file in sorted order, without special files and partial files."""
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(set(folders) - ({PARTIAL_FOLDER} if folder == self.root else set()))
            for name in sorted(names):
                place = os.path.join(folder, name)
                if os.path.isfile(place) and self._is_inside(os.path.realpath(place)):
                    path = os.path.relpath(place, self.root).replace(os.sep, "/")
                    found = os.stat(place)
                    yield {"path": path, "size_bytes": found.st_size, "tag": str(found.st_mtime_ns)}

    def open(self, path: str) -> BinaryIO:
        place = self.find(path)
        if not self._is_inside(os.path.realpath(place)):
            raise RequestRefusal(400, "bad-path", f"{path}: a link leads out of the volume")
        return open(place, "rb")

    def hash(self, path: str) -> str:
        with self.open(path) as file:
            return hash_file(file)

    def begin(self) -> None:
        """Mark the tree as incomplete; refuse a concurrent second copy with 423."""
        os.makedirs(self._marks, exist_ok=True)
        if self._lock is None:
            handle = os.open(self._marks, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                raise RequestRefusal(423, "busy", "another copy to it is under way") from None
            except OSError:
                pass  # no locks on this file system; concurrent copies waste time but lose no file
            self._lock = handle

    def end(self) -> None:
        """Remove the mark and all partial files, including those of earlier copies."""
        if self._unsynced:
            os.sync()
            self._unsynced = False
        shutil.rmtree(self._marks, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_unfinished(self) -> bool:
        return os.path.isdir(self._marks)

    def partial_size(self, identity: str) -> int:
        """Return how many bytes of a file were received; 0 if none."""
        try:
            return os.path.getsize(self._partial(identity))
        except FileNotFoundError:
            return 0

    def write(self, identity: str, offset: int, read: Callable[[int], bytes], size: int) -> int:
        """Truncate a partial file to `offset`, then write `size` bytes there.

        Keeps the received bytes if the rest does not arrive. Returns the new size in bytes.
        """
        there = self.partial_size(identity)
        if offset > there:
            raise RequestRefusal(409, "gap", f"the partial file has only {there} bytes")
        os.makedirs(self._marks, exist_ok=True)
        handle = os.open(self._partial(identity), os.O_RDWR | os.O_CREAT, 0o644)
        with open(handle, "r+b", buffering=0) as file:
            file.truncate(offset)
            file.seek(offset)
            left = size
            while left:
                block = read(min(left, BLOCK_BYTES))
                if not block:
                    break
                view = memoryview(block)
                while view:
                    view = view[file.write(view) :]
                left -= len(block)
            return offset + size - left

    def finish(self, path: str, identity: str, size: int, sha256: str) -> bool:
        """Rename a partial file to `path` if it has this size and checksum; else delete it.

        Without a checksum only the size is compared. Return True if it was renamed.
        """
        partial, final = self._partial(identity), self.find(path)
        with open(partial, "rb") as file:
            right = os.fstat(file.fileno()).st_size == size
            right = right and (not sha256 or hash_file(file) == sha256)
            if right:
                os.fsync(file.fileno())
        if not right:
            os.unlink(partial)
            return False
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.replace(partial, final)
        return True

    def place(self, path: str, sha256: str, held: bytes) -> bool:
        """Write a small file; return False and write nothing if its checksum differs.

        An empty `sha256` is not compared. `end` flushes the file to disk.
        """
        digest = hashlib.sha256(held).hexdigest()
        if sha256 and digest != sha256:
            return False
        final = self.find(path)
        os.makedirs(self._marks, exist_ok=True)
        partial = self._partial(hashlib.sha256(path.encode()).hexdigest())
        with open(partial, "wb") as file:
            file.write(held)
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.replace(partial, final)
        self._unsynced = True
        return True

    def delete(self, path: str) -> None:
        """Delete a file if it exists, and the parent folders that become empty."""
        place = self.find(path)
        try:
            os.unlink(place)
        except FileNotFoundError:
            return
        folder = os.path.dirname(place)
        while folder != self.root and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)

    def clear(self) -> bool:
        """Delete everything, links without their targets; return True if there was any file.

        Keeps folders that are not empty or must not be removed, such as a disk's lost+found.
        """
        found = False
        for folder, folders, names in os.walk(self.root, topdown=False):
            for name in folders + names:
                place = os.path.join(folder, name)
                if os.path.isdir(place) and not os.path.islink(place):
                    with contextlib.suppress(OSError):
                        os.rmdir(place)
                else:
                    os.unlink(place)
                    found = True
        self.end()
        return found

    def find(self, path: str) -> str:
        """Return a file's absolute path; refuse paths outside the root, also through links."""
        parts = path.split("/")
        if any(part in UNUSABLE or "\0" in part for part in parts) or parts[0] == PARTIAL_FOLDER:
            raise RequestRefusal(400, "bad-path", f"{path!r} is not a file path in a data set")
        folder = os.path.realpath(os.path.join(self.root, *parts[:-1]))
        if not self._is_inside(folder):
            raise RequestRefusal(400, "bad-path", f"{path}: a link leads out of the volume")
        return os.path.join(folder, parts[-1])

    def _is_inside(self, place: str) -> bool:
        return place == self.root or place.startswith(self.root.rstrip("/") + "/")

    def _partial(self, identity: str) -> str:
        if not IDENTITY.fullmatch(identity):
            raise RequestRefusal(400, "bad-path", f"{identity!r} is not the name of a partial file")
        return os.path.join(self._marks, identity)


def hash_file(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while True:
        block = file.read(BLOCK_BYTES)
        if not block:
            return digest.hexdigest()
        digest.update(block)
