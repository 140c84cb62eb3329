"""Copies what runs have kept, each into a folder of its own; overwrites nothing unasked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from deployer.data.copy import Progress, copy
from deployer.data.store import Store
from deployer.data.tree import Entry
from deployer.errors import DataError
from deployer.wandb_api.model import RunInfo

MOST_NAMED = 3
NOT_KEPT = "deployer_outputs_not_kept"  # agent/prologue/deployer_outputs.py


@dataclass(frozen=True)
class Gathered:
    """What was copied of a run; `equal_files` were there already. `entries` have checksums."""

    files: int
    size_bytes: int
    equal_files: int
    entries: tuple[Entry, ...]


def find_loss(run: RunInfo) -> str:
    """Return why a run that has ended could not keep its outputs; empty if it could."""
    return str(run.summary.get(NOT_KEPT) or "")


def gather(source: Store, target: Store, progress: Progress, overwrite: bool) -> Gathered:
    """Copy all of a run to its folder; raises DataError, also for files that would be lost.

    A copy that was broken off goes on where it was.
    """
    wanted = source.list_entries()
    equal, other = _compare(source, target, wanted)
    if other and not overwrite:
        named = ", ".join(other[:MOST_NAMED]) + (", …" if len(other) > MOST_NAMED else "")
        raise DataError(
            f"{target}: there is something else in {named}",
            "--to another folder, or --overwrite",
        )
    missing = [entry for entry in wanted if entry.path not in equal]
    copied = copy(source, target, progress, missing) if missing else None
    done = {entry.path: entry for entry in (*equal.values(), *(copied.entries if copied else ()))}
    return Gathered(
        files=len(wanted),
        size_bytes=sum(entry.size_bytes for entry in wanted),
        equal_files=len(equal),
        entries=tuple(done[entry.path] for entry in wanted),
    )


def _compare(
    source: Store, target: Store, wanted: Sequence[Entry]
) -> tuple[dict[str, Entry], list[str]]:
    """Return the files that are there already, and the paths that have other content there."""
    there = {entry.path: entry for entry in target.list_entries()}
    equal: dict[str, Entry] = {}
    other: list[str] = []
    for entry in wanted:
        held = there.get(entry.path)
        if held is None:
            continue
        same = held.size_bytes == entry.size_bytes and _is_same(source, target, entry)
        if same:
            equal[entry.path] = entry
        else:
            other.append(entry.path)
    return equal, other


def _is_same(source: Store, target: Store, entry: Entry) -> bool:
    known = entry.sha256 or source.checksum(entry.path)
    if known:
        return known == (target.checksum(entry.path) or _hash(target, entry.path, "sha256"))
    # Of an artifact that a trainer has logged only MD5 is known, as the entry's tag.
    return entry.tag == _hash(target, entry.path, "md5")


def _hash(store: Store, path: str, algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    for chunk in store.read(path):
        digest.update(chunk)
    return digest.hexdigest()
