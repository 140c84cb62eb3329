"""A file in a tree, and which names a tree may have; pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from deployer.errors import DataError

# What a copy that is not finished yet keeps at the root of its target, in any store.
PARTIAL_FOLDER = ".deployer-partial"
# At the root of a copy of a data set: what it was made from.
ORIGIN_NOTE = ".deployer-origin.json"
# In an object store: what marks a copy as unfinished, and what a checksum is called in metadata.
COPY_MARK = f"{PARTIAL_FOLDER}/copying"
CHECKSUM = "sha256"
LONGEST_NAME_BYTES = 255  # of Linux's file systems


@dataclass(frozen=True)
class Entry:
    """A file of a tree: its path from the root, with slashes, and its size.

    `sha256` is None where it would take reading the file. `tag` is whatever tells one version of
    the file from another: the time of its last change, an ETag.
    """

    path: str
    size_bytes: int
    sha256: str | None = None
    tag: str = ""

    @cached_property
    def identity(self) -> str:
        """Return what names exactly this content under this path: a copy goes on with no other."""
        version = self.sha256 or self.tag
        return hashlib.sha256(f"{self.path}\0{self.size_bytes}\0{version}".encode()).hexdigest()


def check_path(path: str) -> str:
    """Return a path that stays below the root and is a file's on Linux; raises DataError."""
    parts = path.split("/")
    wrong = next((part for part in parts if part in ("", ".", "..") or "\0" in part), None)
    if wrong is not None:
        raise DataError(f"{path!r} is no path of a file in a data set", "rename it")
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError as error:
        raise DataError(f"{path!r}: the name is not UTF-8", "rename it") from error
    if longest > LONGEST_NAME_BYTES:
        said = f"{path!r}: the name is longer than {LONGEST_NAME_BYTES} bytes"
        raise DataError(said, "rename it")
    return path


def is_own(path: str) -> bool:
    """Tell whether a path is one of a copy's own, and none of the data."""
    return path in (PARTIAL_FOLDER, ORIGIN_NOTE) or path.startswith(f"{PARTIAL_FOLDER}/")
