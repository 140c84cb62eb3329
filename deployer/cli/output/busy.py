"""What is waited for, while nothing else is told: on a terminal, since when and for what."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deployer.cli.output.log import LOG
from deployer.cli.output.render import is_drawn
from deployer.text import format_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

WAITING = "deployer.waiting"
SILENCE_SECONDS = 2.0  # after which somebody wonders
LOOKS_PER_SECOND = 4


@contextmanager
def showing_busy(plain: bool = False) -> Iterator[None]:
    """Show on a terminal, after a silence, how long what was told last takes.

    Nobody may be asked a question within the block, and nothing else may write to the terminal.
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
    """The last sentence, and when it was told."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.spinner import Spinner

        super().__init__()
        self._clock = clock
        self._told_at = clock()
        self._told = "beginning"
        self._spinner = Spinner("dots")

    def emit(self, record: logging.LogRecord) -> None:
        """Note a sentence that is told; what is waited for beside the work says itself."""
        if record.name != WAITING:
            self._told, self._told_at = record.getMessage(), self._clock()

    def build(self) -> RenderableType:
        """Return what is seen below what was told: nothing at first, then what lasts how long."""
        from rich.table import Table
        from rich.text import Text

        seconds = self._clock() - self._told_at
        if seconds < SILENCE_SECONDS:
            return ""
        line = Table.grid(padding=(0, 1))
        words = Text(self._told, style="dim", no_wrap=True, overflow="ellipsis")
        line.add_row(self._spinner, Text(format_seconds(seconds), no_wrap=True), words)
        return line
