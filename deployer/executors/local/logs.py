"""Agents' logs, read as they grow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from deployer.executors.local.agent_folder import AgentFolder

POLL_SECONDS = 0.2
CHUNK_BYTES = 1 << 20


class _Tail:
    """One log file; it may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read_lines(self) -> Iterator[str]:
        """Yield the lines that have been completed since the last call."""
        while chunk := self._read():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                yield _text(line)

    def read_rest(self) -> Iterator[str]:
        """Yield a last line without its end; its writer is gone."""
        yield from self.read_lines()
        if self._rest:
            yield _text(self._rest)
            self._rest = b""

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return b""
        self._offset += len(chunk)
        return chunk


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


def follow_lines(folders: Sequence[AgentFolder], follow: bool) -> Iterator[tuple[str, str]]:
    """Yield (agent name, line) of several logs; with `follow`, until all agents have ended."""
    going = [(folder, _Tail(folder.log_path)) for folder in folders]
    while going:
        ended = []
        for folder, tail in going:
            # Asked before reading: what an agent wrote until its end is then all there.
            goes_on = follow and folder.is_alive()
            for line in tail.read_lines() if goes_on else tail.read_rest():
                yield folder.spec.name, line
            if not goes_on:
                ended.append(tail)
        going = [(folder, tail) for folder, tail in going if tail not in ended]
        if going:
            time.sleep(POLL_SECONDS)
