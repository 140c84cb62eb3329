"""The runs of an agent on this host: their folders, their files for W&B, the agent's own log.

Every attempt has a folder `wandb/run-<time>-<run id>` in the folder of its agent. The folders of
all agents have the same parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ..host.processes import holds_open, is_core, list_processes

FILE_HEADER_BYTES = 7  # ":W&B", two magic bytes, the version
BLOCK_BYTES = 1 << 15
TAIL_BYTES = 2 * BLOCK_BYTES  # some hundred records, read in milliseconds
CHUNK_HEADER = struct.Struct("<IHB")  # checksum, length, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4

# Numbers of fields in wandb_internal.proto.
HISTORY, SUMMARY, EXIT = 2, 3, 18  # of Record
ITEM = 1  # of HistoryRecord, and `update` of SummaryRecord
REMOVE = 2  # of SummaryRecord
KEY, NESTED_KEY, VALUE_JSON = 1, 2, 16  # of HistoryItem and SummaryItem
EXIT_CODE = 1  # of RunExitRecord

ProtobufFields = Dict[int, List[Any]]
# Next to a `.wandb` file, marks its attempt as interrupted, so its exit code does not count.
INTERRUPTED_NAME = "deployer-interrupted"
SUPERSEDED_SUFFIX = ".superseded"
CORE_LOG = os.path.join("logs", "debug-core.log")
# wandb-core's log at its start, when its parent tells it to end, and when the parent just exits.
CORE_START = b"will exit if parent process dies"
TORN_DOWN = b"server teardown initiated"
LEFT_BEHIND = b"parent process exited"
QUIET_READS = 10  # more cores at a time than one user starts in a second
CHUNK_BYTES = 1 << 16
LONGEST_LINE_BYTES = 1 << 16  # a progress bar without line ends must not fill the memory


# Reader of the SDK's `.wandb` files, one per run: a LevelDB log of protobuf records. Sources:
# `core/pkg/leveldb` and `wandb_internal.proto` in the public repository wandb/wandb. It parses the
# wire format by hand, since neither wandb nor protobuf may be imported here. A field's number never
# changes its meaning.


@dataclass
class LocalRun:
    """The records of one attempt; `exit_code` is None without an exit record.

    `rows` are history rows by `_step`. `summary` holds JSON values, nested as the SDK nests them.
    """

    rows: Dict[int, Dict[str, Any]] = field(default_factory=dict)
    summary: Dict[str, Any] = field(default_factory=dict)
    exit_code: Optional[int] = None


def read_run(path: str, after: int = -1) -> LocalRun:
    """Read a `.wandb` file up to its last whole record; a killed process leaves a torn end.

    Reads backwards from the end, to the row of step `after` or an earlier one, and skips the rest.
    """
    size = os.path.getsize(path)
    length = TAIL_BYTES
    found = _read_tail(path, size - length)
    while length < size and not any(step <= after for step in found.rows):
        length *= 4
        found = _read_tail(path, size - length)
    return found


def read_exit_code(path: str) -> Optional[int]:
    """Return the exit code from the file's last records; None if there is none."""
    return _read_tail(path, os.path.getsize(path) - TAIL_BYTES).exit_code


def _read_tail(path: str, start: int) -> LocalRun:
    """Read the whole records from `start` on, or a little earlier."""
    found = LocalRun()
    first = max(0, start // BLOCK_BYTES * BLOCK_BYTES)
    with open(path, "rb") as file:
        file.seek(first)
        content = file.read()
    try:
        for record in _split_records(content, 0 if first else FILE_HEADER_BYTES):
            _take(found, parse_fields(record))
    except (IndexError, ValueError, struct.error):
        pass  # the data after a torn record is unreadable
    return found


def _take(found: LocalRun, record: ProtobufFields) -> None:
    for history in record.get(HISTORY, ()):
        row: Dict[str, Any] = {}
        _set_items(row, parse_fields(history).get(ITEM, ()))
        if isinstance(row.get("_step"), int):
            found.rows[row["_step"]] = row
    for summary in record.get(SUMMARY, ()):
        parts = parse_fields(summary)
        _set_items(found.summary, parts.get(ITEM, ()))
        for removed in parts.get(REMOVE, ()):
            _remove(found.summary, _path_of(parse_fields(removed)))
    for ended in record.get(EXIT, ()):
        found.exit_code = parse_fields(ended).get(EXIT_CODE, [0])[-1]


def _set_items(target: Dict[str, Any], items: Any) -> None:
    for item in items:
        parts = parse_fields(item)
        *outer, last = _path_of(parts)
        inner = target
        for name in outer:
            deeper = inner.get(name)
            inner[name] = inner = deeper if isinstance(deeper, dict) else {}
        inner[last] = json.loads(parts[VALUE_JSON][-1]) if VALUE_JSON in parts else None


def _remove(target: Dict[str, Any], path: List[str]) -> None:
    *outer, last = path
    for name in outer:
        target = target.get(name) or {}
    target.pop(last, None)


def _path_of(item: ProtobufFields) -> List[str]:
    return [part.decode() for part in item.get(NESTED_KEY) or item[KEY]]


def _split_records(content: bytes, position: int) -> Iterator[bytes]:
    """Yield whole records; a record longer than the rest of a block has several chunks.

    `content` starts at a block boundary. Skips chunks of a record that began earlier.
    """
    parts: Optional[bytes] = None
    while position + CHUNK_HEADER.size <= len(content):
        left = BLOCK_BYTES - position % BLOCK_BYTES
        if left < CHUNK_HEADER.size:
            position += left
            continue
        _, length, kind = CHUNK_HEADER.unpack_from(content, position)
        position += CHUNK_HEADER.size
        chunk = content[position : position + length]
        if kind not in (FULL, FIRST, MIDDLE, LAST) or len(chunk) < length:
            return
        position += length
        if kind in (FULL, FIRST):
            parts = chunk
        elif parts is not None:
            parts += chunk
        if kind in (FULL, LAST) and parts is not None:
            yield parts


def parse_fields(message: bytes) -> ProtobufFields:
    """Return a protobuf message's fields by number, as integers and undecoded bytes.

    Raises IndexError or ValueError if `message` is invalid.
    """
    fields: ProtobufFields = {}
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        value, position = _read_value(message, position, tag & 7)
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _read_value(message: bytes, position: int, kind: int) -> Tuple[Any, int]:
    if kind == 0:
        return _read_varint(message, position)
    if kind == 2:
        length, position = _read_varint(message, position)
    elif kind in (1, 5):
        length = 8 if kind == 1 else 4
    else:
        raise ValueError(f"wire type {kind}")
    if position + length > len(message):
        raise ValueError("a field is cut short")
    return message[position : position + length], position + length


def _read_varint(message: bytes, position: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if byte < 0x80:
            return value, position


@dataclass(frozen=True)
class Leftovers:
    """The files of all attempts of one run here, oldest first.

    `exit_code` is the newest attempt's; None without an exit record or if interrupted.
    """

    paths: Sequence[str]
    exit_code: Optional[int]

    def read(self, after: int) -> LocalRun:
        """Read the rows after a step, and the newest summary; later attempts take precedence.

        10,000 rows take about a second.
        """
        rows: Dict[int, Dict[str, Any]] = {}
        newest = LocalRun()
        for path in self.paths:
            newest = read_run(path, after)
            rows.update(newest.rows)
        newest.rows = {step: row for step, row in rows.items() if step > after}
        return newest


def list_wandb_files(agents_folder: str, run_id: str) -> List[str]:
    """Return the `.wandb` files of a run, of all agents here, oldest attempt first."""
    found = []
    for agent in _names(agents_folder):
        runs = os.path.join(agents_folder, agent, "wandb")
        for name in _names(runs):
            path = os.path.join(runs, name, f"run-{run_id}.wandb")
            if name.startswith("run-") and run_id in name and os.path.exists(path):
                found.append((name, path))
    return [path for _, path in sorted(found)]


def _names(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def load_leftovers(agents_folder: str, run_id: str) -> Optional[Leftovers]:
    """Return the files of a run's attempts; None if there are none."""
    paths = list_wandb_files(agents_folder, run_id)
    if not paths:
        return None
    exit_code = None if _is_interrupted(paths[-1]) else read_exit_code(paths[-1])
    return Leftovers(paths, exit_code)


def note_interrupt(agents_folder: str, run_id: str) -> bool:
    """Mark a run's newest attempt as interrupted; return False if it already ended normally."""
    paths = list_wandb_files(agents_folder, run_id)
    if not paths:
        return True
    # Check first: a run that sees the mark keeps no outputs, so it must not count as finished.
    if read_exit_code(paths[-1]) is not None and not _is_interrupted(paths[-1]):
        return False
    with contextlib.suppress(OSError), open(_mark_of(paths[-1]), "w", encoding="utf-8"):
        pass
    return True


def is_interrupted(agents_folder: str, run_id: str) -> bool:
    """Return True if a run's newest attempt here was marked as interrupted."""
    return any(_is_interrupted(path) for path in list_wandb_files(agents_folder, run_id)[-1:])


def has_left_its_core(agents_folder: str, run_id: str) -> bool:
    """Return True if the newest attempt, without exit record, exited before its wandb-core.

    Otherwise the core was killed, which made the trainer fail; no exit code shows that. All cores
    that one user starts in the same second, including an agent's, write into the same log.
    """
    for path in list_wandb_files(agents_folder, run_id)[-1:]:
        log = os.path.realpath(os.path.join(os.path.dirname(path), CORE_LOG))
        with contextlib.suppress(OSError):
            text, living = _read_quiet(log)
            left, told = text.count(LEFT_BEHIND), text.count(TORN_DOWN)
            return left > 0 and left + told + living >= text.count(CORE_START)
    return False


def _read_quiet(log: str) -> Tuple[bytes, int]:
    """Return a log of cores and how many of them are alive, read while none writes to it."""
    text, living = b"", 0
    for _ in range(QUIET_READS):
        with open(log, "rb") as file:
            text = file.read()
        cores = [process.id for process in list_processes() if is_core(process)]
        living = sum(holds_open(core, log) for core in cores)
        if os.stat(log).st_size == len(text):
            break
    return text, living


def supersede(agents_folder: str, run_id: str) -> None:
    """Rename a run's files before it restarts from scratch; the server drops these rows, too."""
    for path in list_wandb_files(agents_folder, run_id):
        with contextlib.suppress(OSError):
            os.rename(path, path + SUPERSEDED_SUFFIX)


def _is_interrupted(path: str) -> bool:
    return os.path.exists(_mark_of(path))


def _mark_of(path: str) -> str:
    return os.path.join(os.path.dirname(path), INTERRUPTED_NAME)


class LogReader:
    """Reads what is appended to a log; copies it to the descriptor `copy_to` if given."""

    def __init__(self, path: str, copy_to: Optional[int] = None) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        os.lseek(self._handle, 0, os.SEEK_END)
        self._copy_to = copy_to
        self._rest = b""

    def read_lines(self) -> Iterator[str]:
        """Yield the lines that have been completed since the last call."""
        while True:
            chunk = os.read(self._handle, CHUNK_BYTES)
            if not chunk:
                return
            # The reader may be gone; the log itself is complete anyway.
            if self._copy_to is not None:
                with contextlib.suppress(OSError):
                    os.write(self._copy_to, chunk)
            *lines, rest = (self._rest + chunk).split(b"\n")
            self._rest = rest[-LONGEST_LINE_BYTES:]
            for line in lines:
                yield line.decode(errors="replace")


def newest_run(folder: str, sweep_id: str) -> Optional[str]:
    """Return the id of the run that the agent started last; None if there is none.

    The agent writes `config-<run id>.yaml` just before it starts a run. Its log does not contain
    the id.
    """
    parameters = os.path.join(folder, "wandb", f"sweep-{sweep_id}")
    try:
        with os.scandir(parameters) as entries:
            written = [
                (entry.stat().st_mtime_ns, entry.name)
                for entry in entries
                if entry.name.startswith("config-") and entry.name.endswith(".yaml")
            ]
    except OSError:
        return None
    return max(written)[1][len("config-") : -len(".yaml")] if written else None
