"""Views redrawn in place on stderr: a status, a spinner, the progress of a copy.

In a pipe, with --quiet or with plain lines, only messages are shown.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deployer.cli.output.log import ALWAYS, LOG, SHOWN
from deployer.cli.output.render import say
from deployer.text import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from deployer.data.copy import Progress

WAITING = "deployer.waiting"
SILENCE_SECONDS = 2.0  # then the user wonders
LOOKS_PER_SECOND = 4
STEP = 10  # percent between two lines in a pipe
WORTH_LINES_BYTES = 64 << 20  # smaller copies finish before lines are useful


def is_drawn(plain: bool) -> bool:
    """Return True if a view is redrawn in place: on a terminal, unless lines are wanted."""
    return not plain and SHOWN.level < ALWAYS and sys.stderr.isatty()


@contextmanager
def open_live(plain: bool) -> Iterator[Live | None]:
    """Yield a view on stderr that is redrawn in place; None in a pipe or if lines are wanted."""
    if not is_drawn(plain):
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        yield live


@contextmanager
def showing_busy(plain: bool = False) -> Iterator[None]:
    """On a terminal, show a spinner with the time since the last message, if it is long.

    The block must not prompt, and nothing else may write to the terminal.
    """
    if not is_drawn(plain):
        yield
        return
    from rich.console import Console
    from rich.live import Live

    busy = Busy()
    LOG.addHandler(busy)
    live = Live(
        console=Console(stderr=True),
        get_renderable=busy.build,
        refresh_per_second=LOOKS_PER_SECOND,
        transient=True,
        redirect_stdout=False,
    )
    try:
        with live:
            yield
    finally:
        LOG.removeHandler(busy)


class Busy(logging.Handler):
    """The last message, and its time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.spinner import Spinner

        super().__init__()
        self._clock = clock
        self._told_at = clock()
        self._told = "beginning"
        self._spinner = Spinner("dots")

    def emit(self, record: logging.LogRecord) -> None:
        """Record a message; `deployer.waiting` shows its own."""
        if record.name != WAITING:
            self._told, self._told_at = record.getMessage(), self._clock()

    def build(self) -> RenderableType:
        """Return the line below the messages: the last one and its duration, after a silence."""
        from rich.table import Table
        from rich.text import Text

        seconds = self._clock() - self._told_at
        if seconds < SILENCE_SECONDS:
            return ""
        line = Table.grid(padding=(0, 1))
        words = Text(self._told, style="dim", no_wrap=True, overflow="ellipsis")
        line.add_row(self._spinner, Text(format_seconds(seconds), no_wrap=True), words)
        return line


@contextmanager
def follow_copy(title: str) -> Iterator[Progress]:
    """Show the progress of one copy until the block ends."""
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
        del files
        self._bars.update(self._task, total=size_bytes)

    def advance(self, size_bytes: int) -> None:
        self._bars.advance(self._task, size_bytes)


class CopyLines:
    """A line for every tenth of a large copy."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._lock = threading.Lock()
        self._total = self._done = self._said = 0

    def start(self, files: int, size_bytes: int) -> None:
        del files
        self._total = size_bytes

    def advance(self, size_bytes: int) -> None:
        """Print a line after each tenth."""
        with self._lock:
            self._done += size_bytes
            if self._total < WORTH_LINES_BYTES:
                return
            percent = 100 * self._done // self._total // STEP * STEP
            if percent > self._said:
                self._said = percent
                whole = f"{format_bytes(self._done)} of {format_bytes(self._total)}"
                say(f"{self._title}: {percent} %, {whole}")
