"""Copies a tree from one store to another: what is equal is left, what was broken off goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from deployer.data.store import Store
from deployer.data.tree import Entry, is_own
from deployer.errors import DataError
from deployer.text import format_bytes, format_count

# A connection that breaks costs what was on its way; this often without a byte is no accident.
ATTEMPTS = 5
FIRST_WAIT_SECONDS = 0.5


class Progress(Protocol):
    """Is told how far a copy is; from several threads."""

    def start(self, files: int, size_bytes: int) -> None:
        """Learn how much there is in all."""

    def advance(self, size_bytes: int) -> None:
        """Learn that so many bytes more are done; fewer, if negative, after bytes were wrong."""


class Silence:
    """Progress that nobody follows."""

    def start(self, files: int, size_bytes: int) -> None:
        """Do nothing."""

    def advance(self, size_bytes: int) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Copied:
    """What a copy has found and done.

    `files` and `size_bytes` are the whole tree; `equal_files` were there already; `resumed_bytes`
    were there of files that an earlier copy had not finished. `entries` have their checksums.
    """

    files: int
    size_bytes: int
    equal_files: int
    resumed_bytes: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class _Done:
    entry: Entry
    equal: bool = False
    resumed_bytes: int = 0


def copy(
    source: Store,
    target: Store,
    progress: Progress | None = None,
    entries: Sequence[Entry] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    note: Callable[[Entry], None] | None = None,
) -> Copied:
    """Copy `entries` (all of the source, if left out) to the same paths; nothing is deleted.

    Each file has its final name only when it is whole and its SHA-256 is right. A copy that is
    killed leaves its partial files, and the next one goes on with them. `note` is told each file
    that is there, from several threads. Raises DataError.
    """
    listed = source.list_entries() if entries is None else entries
    wanted = [entry for entry in listed if not is_own(entry.path)]
    progress = progress or Silence()
    progress.start(len(wanted), sum(entry.size_bytes for entry in wanted))
    with target.copying():
        there = {entry.path: entry for entry in target.list_entries()}
        errand = _Errand(source, target, there, progress, sleep, note)
        threads = max(1, min(source.parallel, target.parallel, len(wanted)))
        if threads == 1:
            done = [errand.run(entry) for entry in wanted]
        else:
            with ThreadPoolExecutor(threads) as pool:
                done = _gather(pool, errand, wanted)
    return Copied(
        files=len(done),
        size_bytes=sum(one.entry.size_bytes for one in done),
        equal_files=sum(one.equal for one in done),
        resumed_bytes=sum(one.resumed_bytes for one in done),
        entries=tuple(one.entry for one in done),
    )


def _gather(pool: ThreadPoolExecutor, errand: _Errand, wanted: Sequence[Entry]) -> list[_Done]:
    """Return what became of each file; after a failure, or Ctrl-C, no other one is begun."""
    futures = [pool.submit(errand.run, entry) for entry in wanted]
    try:
        return [future.result() for future in futures]
    except BaseException:
        errand.stopped = True
        pool.shutdown(wait=False, cancel_futures=True)
        raise


class _Stopped(Exception):
    """Another file has failed."""


class _Errand:
    """One copy's two stores, and what the target had when it began."""

    def __init__(
        self,
        source: Store,
        target: Store,
        there: dict[str, Entry],
        progress: Progress,
        sleep: Callable[[float], None],
        note: Callable[[Entry], None] | None,
    ) -> None:
        self._source = source
        self._target = target
        self._there = there
        self._progress = progress
        self._sleep = sleep
        self._note = note
        self._offsets: dict[str, int] = {}
        self.stopped = False

    def run(self, entry: Entry) -> _Done:
        """Copy one file, and again after failures that may pass; only those in vain are counted."""
        in_vain = reached = 0
        while True:
            try:
                done = self._try(entry)
                if self._note:
                    self._note(entry)
                return done
            except DataError as error:
                began_at = self._offsets.get(entry.path, 0)
                in_vain = 1 if began_at > reached else in_vain + 1
                reached = max(reached, began_at)
                if not error.passing or in_vain == ATTEMPTS:
                    raise
                self._sleep(FIRST_WAIT_SECONDS * 2**in_vain)

    def _try(self, entry: Entry) -> _Done:
        known = replace(entry, sha256=entry.sha256 or self._source.checksum(entry.path))
        if self._is_there(known):
            self._progress.advance(entry.size_bytes)
            return _Done(known, equal=True)
        offset = self._offsets[entry.path] = self._target.partial_size(known)
        if self._send(known, offset):
            return _Done(known, resumed_bytes=offset)
        if self._send(known, 0):  # what was there already was wrong
            return _Done(known)
        raise DataError(
            f"{self._source}: {entry.path} is not what it was when the copy began",
            "leave the source alone, then type the command again",
        )

    def _is_there(self, entry: Entry) -> bool:
        there = self._there.get(entry.path)
        if there is None or there.size_bytes != entry.size_bytes or entry.sha256 is None:
            return False
        return entry.sha256 == (there.sha256 or self._target.checksum(entry.path))

    def _send(self, entry: Entry, offset: int) -> bool:
        """Send a file from `offset` on; False if the target has something else then."""
        counted = _Counted(self, self._progress, self._source.read(entry.path, offset))
        self._progress.advance(offset)
        finished = False
        try:
            if offset < entry.size_bytes or not offset:
                self._target.write(entry, counted.chunks(), offset)
            finished = self._target.finish(entry)
        finally:
            if not finished:
                self._progress.advance(-offset - counted.size_bytes)
        return finished


class _Counted:
    """Chunks on their way, counted."""

    def __init__(self, errand: _Errand, progress: Progress, chunks: Iterator[bytes]) -> None:
        self._errand = errand
        self._progress = progress
        self._chunks = chunks
        self.size_bytes = 0

    def chunks(self) -> Iterator[bytes]:
        """Yield them; ends with an exception when another file has failed."""
        for chunk in self._chunks:
            yield chunk
            self.size_bytes += len(chunk)
            self._progress.advance(len(chunk))
            if self._errand.stopped:
                raise _Stopped


def describe_copied(copied: Copied) -> str:
    """Say in one line what a copy has found and done."""
    parts = [f"{format_count(copied.files, 'file')}, {format_bytes(copied.size_bytes)}"]
    if copied.equal_files:
        parts.append(f"{copied.equal_files} there already")
    if copied.resumed_bytes:
        parts.append(f"went on after {format_bytes(copied.resumed_bytes)}")
    return ", ".join(parts)
