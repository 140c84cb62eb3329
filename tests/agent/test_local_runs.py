"""The files that a run's attempts left on this machine, also those of long runs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from wandb.proto import wandb_internal_pb2 as records

from deployer.agent.host.processes import run_task
from deployer.agent.runs.delivery import SERVER_SECONDS
from deployer.agent.runs.local_runs import (
    BLOCK_BYTES,
    FILE_HEADER_BYTES,
    is_interrupted,
    load_leftovers,
    note_interrupt,
)

FIRST_STEP = 1_000_000  # so that every step has as many digits
LONG = 200_000  # rows, which take longer to read than a supervisor waits


def build_record(step: int, size: int = 1) -> bytes:
    """Return a history row of the SDK's, padded to some size."""
    record = records.Record()
    for key, value in (("_step", str(step)), ("note", f'"{"x" * size}"')):
        item = record.history.item.add()
        item.key, item.value_json = key, value
    return record.SerializeToString()


def build_exit(code: int) -> bytes:
    """Return the record of a run's end."""
    record = records.Record()
    record.exit.exit_code = code
    return record.SerializeToString()


def frame(written: Iterable[bytes]) -> Iterator[bytes]:
    """Frame records as wandb-core does: blocks of 32 KiB, chunks of whole and of split records."""
    yield b":W&B" + bytes(FILE_HEADER_BYTES - 4)
    position = FILE_HEADER_BYTES
    for record in written:
        begun = False
        while True:
            left = BLOCK_BYTES - position % BLOCK_BYTES
            if left < 7:
                yield bytes(left)
                position += left
                continue
            chunk, record = record[: left - 7], record[left - 7 :]
            kind = (3 if record else 4) if begun else (2 if record else 1)
            yield struct.pack("<IHB", 0, len(chunk), kind) + chunk
            position += 7 + len(chunk)
            begun = True
            if not record:
                break


def write_run(agents_folder: Path, written: Iterable[bytes]) -> None:
    """Write what an attempt of run r1 leaves."""
    folder = agents_folder / "s-a1" / "wandb" / "run-20260701_100000-r1"
    folder.mkdir(parents=True)
    (folder / "run-r1.wandb").write_bytes(b"".join(frame(written)))


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    """Return the folder of an agent whose run has logged many steps and goes on."""
    row = build_record(FIRST_STEP)
    digits = str(FIRST_STEP).encode()
    steps = range(FIRST_STEP, FIRST_STEP + LONG)
    write_run(tmp_path, (row.replace(digits, str(step).encode()) for step in steps))
    return tmp_path


def test_the_interrupt_of_a_long_run_is_marked(long_run: Path) -> None:
    folder = str(long_run)
    assert run_task(lambda: note_interrupt(folder, "r1"), SERVER_SECONDS) is True
    assert is_interrupted(folder, "r1")


def test_the_last_rows_of_a_long_run_are_found_at_once(long_run: Path) -> None:
    known = FIRST_STEP + LONG - 3

    def read() -> list[int]:
        leftovers = load_leftovers(str(long_run), "r1")
        assert leftovers
        return list(leftovers.read(known).rows)

    assert run_task(read, SERVER_SECONDS) == [known + 1, known + 2]


@pytest.mark.parametrize("size", [1, 300, 20_000, 100_000])
def test_no_row_is_left_out_wherever_reading_begins(tmp_path: Path, size: int) -> None:
    rows = [build_record(step, size) for step in range(40)]
    write_run(tmp_path, [*rows, build_exit(0)])
    leftovers = load_leftovers(str(tmp_path), "r1")
    assert leftovers
    assert leftovers.exit_code == 0
    for known in (-1, 0, 20, 38, 39):
        assert list(leftovers.read(known).rows) == list(range(known + 1, 40))
    assert note_interrupt(str(tmp_path), "r1") is False
    assert not is_interrupted(str(tmp_path), "r1")
