"""What a terminal shows while a step lasts, and of a sweep that goes on."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

import pytest
from rich.console import Console

from deployer.cli.output.live import Busy
from deployer.cli.output.status import BAR, BAR_WIDTH, build_bar
from deployer.cli.watch import show_statuses
from deployer.model import Sweep, SweepPath
from deployer.sweeps.results import Coverage
from deployer.watch.status import summarise_status


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


def test_a_pipe_gets_a_line_for_what_has_changed_and_one_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, own, real = (
        iter((0.0, 0.0, 1.0, 2.0, 30.0, 70.0)),
        threading.get_ident(),
        time.monotonic,
    )

    def read_clock() -> float:
        """Return the next second, but to threads that an earlier test has left."""
        return next(seconds) if threading.get_ident() == own else real()

    monkeypatch.setattr("deployer.cli.watch.time.monotonic", read_clock)
    sweep = Sweep(SweepPath("e", "p", "s"), "", "", "RUNNING", {"method": "grid"}, 0, 3, None)
    looks = [
        summarise_status(replace(sweep, state=state), (), (), 0, 3, 100.0)
        for state in ("RUNNING", "RUNNING", "PAUSED", "PAUSED", "PAUSED")
    ]
    monkeypatch.setattr("deployer.cli.watch.time.time", lambda: 100.0)
    show_statuses(iter(looks), plain=True)
    assert capsys.readouterr().err.splitlines() == [
        "00:00  0/3 finished, 0 agents",
        "00:02  0/3 finished, 0 agents, sweep paused",
        "01:10  0/3 finished, 0 agents, sweep paused",
    ]


def coverage(expected: int | None, finished: int, failed: int, running: int) -> Coverage:
    return Coverage(expected, finished, 0, failed, running, waiting=0, lost=0)


def test_a_bar_has_its_width_however_its_parts_are_rounded() -> None:
    for counts in ((96, 31, 3, 4), (3, 1, 1, 1), (7, 9, 0, 2), (1, 0, 0, 0), (10_000, 1, 1, 1)):
        assert str(build_bar(coverage(*counts))) == BAR * BAR_WIDTH
    assert build_bar(coverage(None, 5, 0, 1)) == ""
