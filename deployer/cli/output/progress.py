"""How far a copy is, on stderr: a bar in a terminal, lines of tens of percent elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deployer.cli.output.render import is_drawn, say
from deployer.data.copy import Progress
from deployer.text import format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

STEP = 10  # percent between two lines of a pipe
WORTH_LINES_BYTES = 64 << 20  # what is smaller is there before anybody wonders


@contextmanager
def follow_copy(title: str) -> Iterator[Progress]:
    """Show how far one copy is until the block ends."""
    if not is_drawn(plain=False):
        yield CopyLines(title)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield CopyBar(bars, bars.add_task(title, total=None))


class CopyBar:
    """A bar that is redrawn in place."""

    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def start(self, files: int, size_bytes: int) -> None:
        """Take note of how much there is."""
        del files
        self._bars.update(self._task, total=size_bytes)

    def advance(self, size_bytes: int) -> None:
        """Move the bar."""
        self._bars.advance(self._task, size_bytes)


class CopyLines:
    """A line for every tenth of a large copy."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._lock = threading.Lock()
        self._total = self._done = self._said = 0

    def start(self, files: int, size_bytes: int) -> None:
        """Take note of how much there is."""
        del files
        self._total = size_bytes

    def advance(self, size_bytes: int) -> None:
        """Say so when another tenth is done."""
        with self._lock:
            self._done += size_bytes
            if self._total < WORTH_LINES_BYTES:
                return
            percent = 100 * self._done // self._total // STEP * STEP
            if percent > self._said:
                self._said = percent
                whole = f"{format_bytes(self._done)} of {format_bytes(self._total)}"
                say(f"{self._title}: {percent} %, {whole}")
