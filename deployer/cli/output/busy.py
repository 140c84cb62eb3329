"""What is waited for, while nothing else is told: on a terminal, since when and for what."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deployer.cli.output.render import is_drawn, say
from deployer.text import format_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

SILENCE_SECONDS = 2.0  # after which somebody wonders
LOOKS_PER_SECOND = 4


@contextmanager
def showing_busy(plain: bool = False) -> Iterator[Callable[[str], None]]:
    """Give what tells a sentence; a terminal shows after a silence how long the last one lasts.

    Nobody may be asked a question within the block, and nothing else may write to the terminal.
    """
    if not is_drawn(plain):
        yield say
        return
    from rich.console import Console
    from rich.live import Live

    busy = Busy()
    with Live(
        console=Console(stderr=True),
        get_renderable=busy.build,
        refresh_per_second=LOOKS_PER_SECOND,
        transient=True,
        redirect_stdout=False,
    ):
        yield busy.tell


class Busy:
    """The last sentence, and when it was told."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.spinner import Spinner

        self._clock = clock
        self._told_at = clock()
        self._told = "beginning"
        self._spinner = Spinner("dots")

    def tell(self, sentence: str) -> None:
        """Tell a sentence, and begin to wait for the next one."""
        self._told, self._told_at = sentence, self._clock()
        say(sentence)

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
