"""Copies what runs have kept, each into a folder of its own; overwrites nothing unasked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from deployer.data.copy import Progress, copy
from deployer.data.store import Store
from deployer.data.tree import Entry
from deployer.model import Run

NOT_KEPT = "deployer_outputs_not_kept"  # agent/prologue/deployer_outputs.py


@dataclass(frozen=True)
class Gathered:
    """What was copied of a run; `equal_files` were there already. `entries` have checksums."""

    files: int
    size_bytes: int
    equal_files: int
    entries: tuple[Entry, ...]


def find_loss(run: Run) -> str:
    """Return why a run that has ended could not keep its outputs; empty if it could."""
    return str(run.summary.get(NOT_KEPT) or "")


def gather(source: Store, target: Store, progress: Progress, overwrite: bool) -> Gathered:
    """Copy all of a run to its folder; raises DataError, also for files that would be lost.

    A copy that was broken off goes on where it was.
    """
    copied = copy(source, target, progress, overwrite=overwrite)
    # Of an artifact that a trainer has logged only MD5 is known before it is here.
    entries = (one if one.sha256 else _read_checksum(target, one) for one in copied.entries)
    return Gathered(copied.files, copied.size_bytes, copied.equal_files, tuple(entries))


def _read_checksum(target: Store, entry: Entry) -> Entry:
    """Return an entry with the checksum of what is in the target, reading it if need be."""
    known = target.checksum(entry.path)
    if known is None:
        digest = hashlib.sha256()
        for chunk in target.read(entry.path):
            digest.update(chunk)
        known = digest.hexdigest()
    return replace(entry, sha256=known)
