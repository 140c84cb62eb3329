"""`up` says what it waits for when a script is slow to answer."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

from deployer.launch.checks.script import await_report
from deployer.scripts.script_check import Report


def test_a_slow_script_is_named() -> None:
    file = Path("sweep.yaml")
    future: Future[Report] = Future()
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        future.set_result(Report(not_checked="no reason"))

    assert await_report(future, file, tell, patience=0.0).not_checked == "no reason"
    assert told == ["sweep.yaml: asking its script about its flags"]
    assert await_report(future, file, tell).not_checked == "no reason"
