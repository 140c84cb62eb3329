"""What a sweep's first run shows, and what follows for the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployer.agent.settings import DEADLINE_VARIABLE
from deployer.executors.base import Memory
from deployer.model import Agent, Attempt, Run, Sweep, SweepPath
from deployer.watch.probe import LOGGING_SECONDS, SILENT_SECONDS, Probe, Verdict, forecast_rest
from deployer.watch.status import Status, summarise_status

PATH = SweepPath("e", "p", "s")
SWEEP = Sweep(PATH, "", "", "RUNNING", {"method": "grid", "metric": {"name": "loss"}}, 0, 9, None)


def make_run(state: str = "running", run_id: str = "s-0", **given: Any) -> Run:
    cause = {"running": None, "finished": "finished"}.get(state, "own failure")
    attempt = Attempt(1, "s-a1", 1000.0, None if cause is None else 1020.0, cause, None)
    run = Run(run_id, "", state, {}, {}, None, 1000.0, None, attempts=(attempt,))
    return replace(run, **given)


def make_status(*runs: Run, expected: int | None = 9) -> Status:
    agent = Agent("s-a1", str(PATH), "running", 1000.0)
    return summarise_status(replace(SWEEP, expected=expected), runs, [agent], 0, None, 1000.0)


def watch(*runs: Run, every: float = 1.0) -> Probe:
    probe = Probe(frozenset({"s-a1"}), {})
    for number, run in enumerate(runs):
        probe.look(make_status(run), 1001.0 + number * every)
    return probe


def make_trail(count: int, **more: Any) -> list[Run]:
    """Return a run that logs an epoch every 10 s."""
    logged = [{"_timestamp": 1000.0 + 10 * n, "_step": n, "epoch": n} for n in range(count)]
    return [make_run(summary={**row, **more}, config={"epochs": 50}) for row in logged]


def test_a_finished_run_says_how_long_the_rest_takes() -> None:
    probe = watch(make_run(), make_run("finished", summary={"_step": 9, "_runtime": 6, "loss": 1}))
    assert probe.over
    report = probe.report(SWEEP)
    assert (report.verdict, report.value, report.run_seconds) == (Verdict.GOOD, 1.0, 20.0)
    assert (report.rows, report.rows_per_minute) == (10, 100.0)
    assert probe.status
    rest = forecast_rest(report, probe.status, 3)
    assert (rest.runs, rest.seconds) == (8, 3 * 20.0)
    assert forecast_rest(report, make_status(expected=None), 3).runs is None


def test_a_long_run_is_looked_at_for_a_minute_of_logging() -> None:
    probe = watch(make_run(), make_run(), every=100.0)
    assert not probe.over  # it loads its data, maybe
    trail = make_trail(3)
    for second, run in ((150.0, trail[0]), (150.0 + LOGGING_SECONDS - 1, trail[1])):
        probe.look(make_status(run), 1000.0 + second)
        assert not probe.over
    probe.look(make_status(trail[2]), 1150.0 + LOGGING_SECONDS)
    assert probe.over
    report = probe.report(SWEEP)
    assert report.verdict is Verdict.GOOD
    assert report.value is None
    assert report.rows_per_minute == 6
    # 210 s so far; it is in epoch 2 of 50, at 10 s each.
    assert (report.run_seconds, report.progress) == (210.0 + 480.0, "epoch 2 of 50")
    assert probe.status
    assert forecast_rest(report, probe.status, 9).runs == 8


def test_a_run_that_says_nothing_of_its_end_gives_no_forecast() -> None:
    trail = [replace(run, config={}) for run in make_trail(3, loss=1)]
    report = watch(*trail).report(SWEEP)
    assert (report.run_seconds, report.rows_per_minute, report.value) == (None, 6, 1.0)


def test_a_run_that_logs_nothing_is_left_after_a_while() -> None:
    probe = watch(make_run(), make_run(), every=SILENT_SECONDS)
    assert probe.over
    assert probe.report(SWEEP).verdict is Verdict.SILENT


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (make_run("failed"), Verdict.FAILED),
        (make_run("preempted"), Verdict.FAILED),  # it would be tried once more
        (make_run("crashed", attempts=()), Verdict.FAILED),  # as W&B's servers say it
        (make_run("finished", summary={"accuracy": 1}), Verdict.UNRANKED),
    ],
)
def test_a_run_that_is_no_good_says_so(run: Run, verdict: Verdict) -> None:
    probe = watch(run)
    assert probe.over
    assert probe.report(SWEEP).verdict is verdict


@pytest.mark.parametrize("state", [None, "preempted", "failed"])
def test_a_probe_whose_time_is_over_has_not_failed(state: str | None) -> None:
    """Unless it had failed before."""
    environment = {DEADLINE_VARIABLE: "1000.0"}
    agent = Agent("s-a1", str(PATH), "ended", 990.0, exit_code=0, environment=environment)
    attempt = Attempt(1, "s-a1", 991.0, 1000.0, "interrupted", None)
    runs = [make_run(state, attempts=(attempt,))] if state else []
    probe = Probe(frozenset({"s-a1"}), {})
    probe.look(summarise_status(SWEEP, runs, [agent], 0, None, 1001.0), 1001.0)
    expected = Verdict.FAILED if state == "failed" else Verdict.OUT_OF_TIME
    assert probe.report(SWEEP).verdict is expected


def test_only_what_its_agent_has_begun_now_is_the_probe() -> None:
    """The agent has the name of an earlier one; the run it left behind is tried again."""
    old, left = make_run("finished", "s-0"), make_run("preempted", "s-1")
    probe = Probe(frozenset({"s-a1"}), {"s-0": 1, "s-1": 1})
    probe.look(make_status(old, left), 1001.0)
    assert (probe.run, probe.over) == (None, False)
    assert probe.report(SWEEP).verdict is Verdict.NO_RUN
    second = Attempt(2, "s-a1", 1002.0, None, None, None)
    again = replace(left, state="running", attempts=(*left.attempts, second))
    probe.look(make_status(old, again), 1002.0)
    assert probe.run == again
    assert not probe.over
    # A server that keeps no attempts: the run that was not there before.
    nameless = Probe(frozenset({"s-a1"}), {"s-0": 1})
    nameless.look(make_status(old, make_run(run_id="s-9", attempts=())), 1001.0)
    assert nameless.run
    assert nameless.run.run_id == "s-9"


def test_memory_is_the_most_that_was_seen() -> None:
    probe = watch(make_run())
    for used in (3, 5, 4):
        probe.look(make_status(make_run()), 1001.0, [Memory("memory", used, 9)])
    assert probe.report(SWEEP).memory == {"memory": 5}
