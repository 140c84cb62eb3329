"""Copies a tree between stores; skips equal files and resumes interrupted ones."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from deployer.data.store import Entry, Store, is_own
from deployer.errors import DataError
from deployer.text import format_bytes, format_count

MOST_NAMED = 3
SMALL_BYTES = 256 << 10  # larger files get their own request
BATCH_BYTES = 4 << 20
BATCH_FILES = 500
MD5 = re.compile(r'"?([0-9a-f]{32})"?')  # as the tag of an artifact's file, or as an ETag

Advance = Callable[[int], None]
T = TypeVar("T")
# A broken connection loses only data in transit; so many failures without progress are permanent.
ATTEMPTS = 5
FIRST_WAIT_SECONDS = 0.5
IN_VAIN_SECONDS = 25.0  # without progress; a store that never answers is not retried five times


@dataclass(frozen=True)
class Compared:
    """Equal files by path, and files to send; `other` have different content in the target.

    Includes checksums that had to be computed.
    """

    equal: Mapping[str, Entry]
    left: Mapping[str, Entry]
    other: Set[str]


class Patiently(Protocol):
    """Calls a function until it succeeds, or has failed too often."""

    def __call__(self, act: Callable[[], T]) -> T:
        """Return the result of `act`."""


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
    """Compare `wanted` files of the source with the target's, by checksums.

    If the source has no checksum, `thorough` reads the file; otherwise it counts as different.
    `advance` gets the size of equal files. Raises DataError.
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
    named = ", ".join(other[:MOST_NAMED]) + (", …" if len(other) > MOST_NAMED else "")
    said = f"{target} already has {format_count(len(other), 'file')} with other content: {named}"
    return DataError(said, "--overwrite replaces it; or choose another place")


def cut_batches(entries: Sequence[Entry], together: bool) -> Iterator[list[Entry]]:
    """Yield batches of entries, many small ones at a time if `together`."""
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
    unknown = [entry.path for entry in entries if entry.sha256 is None]
    found = store.list_checksums(unknown) if unknown else {}
    return [replace(one, sha256=one.sha256 or found.get(one.path)) for one in entries]


class _Comparison:
    """Two stores, and the target's files."""

    def __init__(
        self, source: Store, target: Store, there: Mapping[str, Entry], thorough: bool
    ) -> None:
        self._source = source
        self._target = target
        self._there = there
        self._thorough = thorough

    def run(self, batch: Sequence[Entry]) -> _Found:
        """Compare files of equal size in both."""
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


class Progress(Protocol):
    """Receives the progress of a copy, from several threads."""

    def start(self, files: int, size_bytes: int) -> None:
        """Set the totals."""

    def advance(self, size_bytes: int) -> None:
        """Add to the bytes done; negative after corrupt bytes."""


class Silence:
    """A progress that nobody reads."""

    def start(self, files: int, size_bytes: int) -> None:
        """Do nothing."""

    def advance(self, size_bytes: int) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class CopyResult:
    """The result of a copy.

    `files` and `size_bytes` count the whole tree; `equal_files` were present already,
    `replaced_files` with other content. `resumed_bytes` come from files that an earlier copy did
    not finish. `entries` have their checksums.
    """

    files: int
    size_bytes: int
    equal_files: int
    resumed_bytes: int
    entries: tuple[Entry, ...]
    replaced_files: int = 0


@dataclass(frozen=True)
class _Done:
    entry: Entry
    resumed_bytes: int = 0


def copy(
    source: Store,
    target: Store,
    progress: Progress | None = None,
    entries: Sequence[Entry] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    note: Callable[[Entry], None] | None = None,
    overwrite: bool = True,
) -> CopyResult:
    """Copy `entries` (default: all of the source) to the same paths; nothing is deleted.

    A file gets its final name only when it is complete and its SHA-256 is correct. A killed copy
    leaves its partial files, which the next one resumes. `note` is called for each present file,
    from several threads. Without `overwrite`, nothing is copied if a file has other content in the
    target. Raises DataError.
    """
    listed = source.list_entries() if entries is None else entries
    wanted = [entry for entry in listed if not is_own(entry.path)]
    progress = progress or Silence()
    progress.start(len(wanted), sum(entry.size_bytes for entry in wanted))
    errand = _Errand(source, target, progress, sleep, note)
    found = errand.compare(wanted, thorough=not overwrite)
    if found.other and not overwrite:
        raise refuse_other(target, sorted(found.other))
    left = [found.left[entry.path] for entry in wanted if entry.path in found.left]
    done: list[_Done] = []
    if left or target.is_unfinished():
        with target.copying():
            done = errand.send(left)
    sent = {one.entry.path: one.entry for one in done}
    return CopyResult(
        files=len(wanted),
        size_bytes=sum(entry.size_bytes for entry in wanted),
        equal_files=len(found.equal),
        resumed_bytes=sum(one.resumed_bytes for one in done),
        entries=tuple(sent.get(one.path) or found.equal[one.path] for one in wanted),
        replaced_files=len(found.other),
    )


class _Stopped(Exception):
    """Another file failed."""


class _Errand:
    """A copy between two stores."""

    def __init__(
        self,
        source: Store,
        target: Store,
        progress: Progress,
        sleep: Callable[[float], None],
        note: Callable[[Entry], None] | None,
    ) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._sleep = sleep
        self._note = note or (lambda _: None)
        self._offsets: dict[str, int] = {}
        self.stopped = False

    def compare(self, wanted: Sequence[Entry], thorough: bool) -> Compared:
        """Find the files that are present already; each of them is noted."""
        advance = self._progress.advance
        found = compare(self._source, self._target, wanted, thorough, advance, self._patiently)
        for entry in found.equal.values():
            self._note(entry)
        return found

    def send(self, entries: Sequence[Entry]) -> list[_Done]:
        """Copy files; after a failure, or Ctrl-C, start no other file."""
        batches = list(cut_batches(entries, self._source.batches or self._target.batches))
        threads = max(1, min(self._source.parallel, self._target.parallel, len(batches)))
        if threads == 1:
            return [one for batch in batches for one in self._run(batch)]
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(self._run, batch) for batch in batches]
            try:
                return [one for future in futures for one in future.result()]
            except BaseException:
                self.stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _run(self, batch: Sequence[Entry]) -> list[_Done]:
        done = self._send_together(batch) if len(batch) > 1 else {}
        for path in done:
            self._progress.advance(done[path].size_bytes)
            self._note(done[path])
        return [_Done(done[one.path]) if one.path in done else self._send(one) for one in batch]

    def _send_together(self, batch: Sequence[Entry]) -> dict[str, Entry]:
        """Copy small files at once; return those that arrived, the others are sent one by one."""
        known = add_checksums(self._source, batch)
        try:
            right = self._target.write_many(self._source.read_many(known))
        except DataError as error:
            if not error.passing:
                raise
            return {}
        if self.stopped:
            raise _Stopped
        return {entry.path: entry for entry in known if entry.path in right}

    def _send(self, entry: Entry) -> _Done:
        """Copy one file, retrying transient failures; only those without progress count."""
        done = self._patiently(lambda: self._try(entry), lambda: self._offsets.get(entry.path, 0))
        self._note(entry)
        return done

    def _patiently(self, act: Callable[[], T], reach: Callable[[], int] = lambda: 0) -> T:
        """Call until it succeeds, or has failed too often without progress."""
        in_vain = reached = 0
        since = time.monotonic()
        while True:
            try:
                return act()
            except DataError as error:
                began_at = reach()
                if began_at > reached:
                    in_vain, since = 0, time.monotonic()
                in_vain += 1
                reached = max(reached, began_at)
                too_long = time.monotonic() - since > IN_VAIN_SECONDS
                if not error.passing or in_vain == ATTEMPTS or too_long:
                    raise
                self._sleep(FIRST_WAIT_SECONDS * 2**in_vain)

    def _try(self, entry: Entry) -> _Done:
        [known] = add_checksums(self._source, [entry])
        offset = self._offsets[entry.path] = self._target.partial_size(known)
        if self._transfer(known, offset):
            return _Done(known, resumed_bytes=offset)
        if self._transfer(known, 0):  # the partial file was corrupt
            return _Done(known)
        raise DataError(
            f"{self._source}: {entry.path} has changed since the copy began",
            "do not change the source during a copy; type the command again",
        )

    def _transfer(self, entry: Entry, offset: int) -> bool:
        """Send a file from `offset` on; return False if the result in the target is wrong."""
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
    """Counts chunks in transit."""

    def __init__(self, errand: _Errand, progress: Progress, chunks: Iterator[bytes]) -> None:
        self._errand = errand
        self._progress = progress
        self._chunks = chunks
        self.size_bytes = 0

    def chunks(self) -> Iterator[bytes]:
        """Yield them; raises an exception when another file has failed."""
        for chunk in self._chunks:
            yield chunk
            self.size_bytes += len(chunk)
            self._progress.advance(len(chunk))
            if self._errand.stopped:
                raise _Stopped


def describe_copied(copied: CopyResult) -> str:
    """Return the result of a copy as one line."""
    parts = [f"{format_count(copied.files, 'file')}, {format_bytes(copied.size_bytes)}"]
    if copied.equal_files:
        parts.append(f"{copied.equal_files} already there")
    if copied.replaced_files:
        parts.append(f"{copied.replaced_files} replaced")
    if copied.resumed_bytes:
        parts.append(f"resumed after {format_bytes(copied.resumed_bytes)}")
    return ", ".join(parts)
