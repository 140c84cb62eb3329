"""Reads what the agent and its runs write into their log, as it grows."""

import contextlib
import os
from typing import Iterator, Optional

CHUNK_BYTES = 1 << 16
LONGEST_LINE_BYTES = 1 << 16  # a progress bar without line ends must not fill the memory


class LogReader:
    """Reads a log from its present end on; copies it to the descriptor `copy_to` if given."""

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
            self._copy(chunk)
            *lines, rest = (self._rest + chunk).split(b"\n")
            self._rest = rest[-LONGEST_LINE_BYTES:]
            for line in lines:
                yield line.decode(errors="replace")

    def _copy(self, chunk: bytes) -> None:
        # Nobody may be reading any more; the log itself is complete in any case.
        if self._copy_to is not None:
            with contextlib.suppress(OSError):
                os.write(self._copy_to, chunk)


def newest_run(folder: str, sweep_id: str) -> Optional[str]:
    """Return the id of the run that the agent began last.

    The agent writes `config-<run id>.yaml` just before it starts a run, and says so in the log
    without the id.
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
