"""What a terminal shows while a step lasts, and of a sweep that goes on."""

from __future__ import annotations

import logging

from rich.console import Console

from deployer.cli.output.live import Busy
from deployer.cli.output.status_view import BAR, BAR_WIDTH, build_bar
from deployer.sweeps.results import Coverage


def draw(busy: Busy, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as seen:
        console.print(busy.build())
    return seen.get().strip()


def test_after_a_silence_is_shown_what_lasts_how_long() -> None:
    now = 100.0
    busy = Busy(lambda: now)
    assert draw(busy) == ""
    now += 3.0
    assert draw(busy).endswith("3 s beginning")
    busy.handle(logging.makeLogRecord({"msg": "creating the cluster"}))
    assert draw(busy) == ""
    now += 125.0
    assert draw(busy).endswith("2 min creating the cluster")
    assert len(draw(busy, width=20)) <= 20
    assert "\N{HORIZONTAL ELLIPSIS}" in draw(busy, width=20)


def coverage(expected: int | None, finished: int, failed: int, running: int) -> Coverage:
    return Coverage(expected, finished, 0, failed, running, waiting=0, lost=0)


def test_a_bar_has_its_width_however_its_parts_are_rounded() -> None:
    for counts in ((96, 31, 3, 4), (3, 1, 1, 1), (7, 9, 0, 2), (1, 0, 0, 0), (10_000, 1, 1, 1)):
        assert str(build_bar(coverage(*counts))) == BAR * BAR_WIDTH
    assert build_bar(coverage(None, 5, 0, 1)) == ""
