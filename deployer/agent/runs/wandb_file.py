"""Reads the `.wandb` files that the SDK keeps of each run: a LevelDB log of protobuf records.

Sources: `core/pkg/leveldb` and `wandb_internal.proto` in the public repository wandb/wandb. The
wire format is read by hand, since neither wandb nor protobuf may be imported here; a field's number
never changes its meaning.
"""

import json
import os
import struct
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple

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

Fields = Dict[int, List[Any]]


@dataclass
class LocalRun:
    """What one attempt wrote down; `exit_code` is None if it never came to its end.

    `rows` are history rows by `_step`. `summary` holds JSON values, nested as the SDK nests them.
    """

    rows: Dict[int, Dict[str, Any]] = field(default_factory=dict)
    summary: Dict[str, Any] = field(default_factory=dict)
    exit_code: Optional[int] = None


def read_run(path: str, after: int = -1) -> LocalRun:
    """Read a `.wandb` file as far as it is whole; a torn end is what a killed process leaves.

    Reads backwards from the end, to the row of step `after` or an earlier one; the rest of the file
    is left out.
    """
    size = os.path.getsize(path)
    length = TAIL_BYTES
    found = _read_tail(path, size - length)
    while length < size and not any(step <= after for step in found.rows):
        length *= 4
        found = _read_tail(path, size - length)
    return found


def read_exit_code(path: str) -> Optional[int]:
    """Return the exit code, which is among a file's last records, however long the run was."""
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
        pass  # what follows a torn record cannot be read
    return found


def _take(found: LocalRun, record: Fields) -> None:
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


def _path_of(item: Fields) -> List[str]:
    return [part.decode() for part in item.get(NESTED_KEY) or item[KEY]]


def _split_records(content: bytes, position: int) -> Iterator[bytes]:
    """Yield whole records; one longer than the rest of a block lies in several chunks.

    `content` begins with a block. Chunks of a record that began earlier are skipped.
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


def parse_fields(message: bytes) -> Fields:
    """Return a protobuf message's fields by number: whole numbers and bytes, unpacked no further.

    Raises IndexError or ValueError for what is no message.
    """
    fields: Fields = {}
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
