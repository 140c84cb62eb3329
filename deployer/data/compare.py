"""Tells which files of a tree are in another one already, and which have other content there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from deployer.data.store import Store
from deployer.data.tree import Entry
from deployer.errors import DataError
from deployer.text import format_count

MOST_NAMED = 3
SMALL_BYTES = 256 << 10  # what is larger is worth a request of its own
BATCH_BYTES = 4 << 20
BATCH_FILES = 500
MD5 = re.compile(r'"?([0-9a-f]{32})"?')  # as the tag of an artifact's file, or as an ETag

Advance = Callable[[int], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Compared:
    """Equal files by path, and what is left to be sent; `other` has other content in the target.

    Checksums that had to be computed are kept.
    """

    equal: Mapping[str, Entry]
    left: Mapping[str, Entry]
    other: Set[str]


class Patiently(Protocol):
    """Does something until it works, or has failed too often."""

    def __call__(self, act: Callable[[], T]) -> T:
        """Return what `act` returns."""


@dataclass(frozen=True)
class _Found:
    equal: Sequence[Entry] = ()
    other: Sequence[Entry] = ()


def compare(
    source: Store,
    target: Store,
    wanted: Sequence[Entry],
    thorough: bool,
    advance: Advance,
    patiently: Patiently,
) -> Compared:
    """Compare `wanted` files of the source with what the target has, by checksums.

    Where the source knows none, `thorough` has the file read; else it counts as another. `advance`
    is told the size of equal files. Raises DataError.
    """
    there = {entry.path: entry for entry in target.list_entries()}
    held = [entry for entry in wanted if entry.path in there]
    alike = [entry for entry in held if there[entry.path].size_bytes == entry.size_bytes]
    errand = _Comparison(source, target, there, thorough)
    batches = cut_batches(alike, source.batches or target.batches)
    equal: dict[str, Entry] = {}
    known = {entry.path: entry for entry in wanted}
    with ThreadPoolExecutor(max(1, min(source.parallel, target.parallel))) as pool:
        for found in pool.map(lambda batch: patiently(lambda: errand.run(batch)), batches):
            equal |= {entry.path: entry for entry in found.equal}
            known |= {entry.path: entry for entry in found.other}
            advance(sum(entry.size_bytes for entry in found.equal))
    left = {path: entry for path, entry in known.items() if path not in equal}
    return Compared(equal, left, left.keys() & there.keys())


def refuse_other(target: Store, other: Sequence[str]) -> DataError:
    """Return the error for files that would be lost."""
    named = ", ".join(other[:MOST_NAMED]) + (", …" if len(other) > MOST_NAMED else "")
    said = f"{target}: {format_count(len(other), 'file')} there with other content: {named}"
    return DataError(said, "--overwrite replaces what is there; or choose another place")


def cut_batches(entries: Sequence[Entry], together: bool) -> Iterator[list[Entry]]:
    """Yield entries, small ones many at a time if they may go together."""
    batch: list[Entry] = []
    size_bytes = 0
    for entry in entries:
        if not together or entry.size_bytes > SMALL_BYTES:
            yield [entry]
            continue
        if len(batch) == BATCH_FILES or size_bytes + entry.size_bytes > BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(entry)
        size_bytes += entry.size_bytes
    if batch:
        yield batch


def add_checksums(store: Store, entries: Sequence[Entry]) -> list[Entry]:
    """Return entries with their checksums, as far as the store has or computes them."""
    unknown = [entry.path for entry in entries if entry.sha256 is None]
    found = store.list_checksums(unknown) if unknown else {}
    return [replace(one, sha256=one.sha256 or found.get(one.path)) for one in entries]


class _Comparison:
    """Two stores, and what the target has."""

    def __init__(
        self, source: Store, target: Store, there: Mapping[str, Entry], thorough: bool
    ) -> None:
        self._source = source
        self._target = target
        self._there = there
        self._thorough = thorough

    def run(self, batch: Sequence[Entry]) -> _Found:
        """Compare files that are as long in both."""
        known = add_checksums(self._source, batch)
        comparable = [entry for entry in known if entry.sha256 or self._thorough]
        there = add_checksums(self._target, [self._there[entry.path] for entry in comparable])
        sums = {entry.path: entry.sha256 for entry in there}
        equal = {one.path for one in comparable if self._is_same(one, sums[one.path])}
        return _Found(
            [entry for entry in known if entry.path in equal],
            [entry for entry in known if entry.path not in equal],
        )

    def _is_same(self, entry: Entry, there: str | None) -> bool:
        if not self._thorough:
            return entry.sha256 == there
        md5 = MD5.fullmatch(entry.tag)
        if entry.sha256 is None and md5 and md5[1] == _hash(self._target, entry.path, "md5"):
            return True
        ours = entry.sha256 or _hash(self._source, entry.path, "sha256")
        return ours == (there or _hash(self._target, entry.path, "sha256"))


def _hash(store: Store, path: str, algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    for chunk in store.read(path):
        digest.update(chunk)
    return digest.hexdigest()
