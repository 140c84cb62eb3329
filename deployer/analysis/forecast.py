"""Forecasts the end of a sweep from the durations of its runs; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

from deployer.model import Run
from deployer.sweeps.results import ACTIVE_STATES, Results, run_seconds

# Overhead if the server has no attempts: the agent's next poll, and the start of the SDK.
AGENT_POLL_SECONDS = 5.0


def forecast_end(results: Results, runs: Sequence[Run], agents: int, now: float) -> float | None:
    """Estimate when the last configuration finishes: remaining work, divided by living agents.

    None before the first run has finished, for an endless or paused sweep, without agents, and at
    the end.
    """
    left = results.coverage.waiting + results.coverage.running
    if results.coverage.expected is None or results.state == "PAUSED" or not agents or not left:
        return None
    if (pace := finishing_pace(runs, agents)) is not None:
        last, seconds = pace
        # If the next one is overdue, or the clock was set, it is due now, and the others after it.
        ends_at = max(min(last, now) + left * seconds, now + (left - 1) * seconds)
        return ends_at if ends_at > now else None
    if (usual := usual_seconds(runs)) is None:
        return None
    spent = sum(
        min(usual, max(0.0, now - run.created_at))
        for run in runs
        if run.state in ACTIVE_STATES and run.created_at is not None
    )
    remaining = left * usual - spent
    return now + remaining / min(agents, left) if remaining > 0 else None


def usual_seconds(runs: Sequence[Run]) -> float | None:
    """Return the usual seconds of an agent for one run, from its assignment to the next.

    None before the first run has finished.
    """
    done = [run for run in runs if run.state == "finished"]
    begun: dict[str, list[float]] = {}
    for attempt in (attempt for run in runs for attempt in run.attempts):
        if attempt.assigned_at is not None:
            begun.setdefault(attempt.agent, []).append(attempt.assigned_at)
    turns = [b - a for times in begun.values() for a, b in pairwise(sorted(times))]
    whole = [
        last.ended_at - last.assigned_at
        for last in (run.attempts[-1] for run in done if run.attempts)
        if last.ended_at is not None and last.assigned_at is not None
    ]
    if done and (turns or whole):
        return max(0.0, statistics.median(turns or whole))
    durations = [seconds for run in done if (seconds := run_seconds(run)) is not None]
    return statistics.median(durations) + AGENT_POLL_SECONDS if durations else None


def finishing_pace(runs: Sequence[Run], agents: int) -> tuple[float, float] | None:
    """Return when the last run finished and the seconds from one finish to the next.

    This includes all overhead: starting the SDK, the agent's polls, loading data again. It is the
    median of whole rounds, so that a night without agents or a clock change does not count: such a
    gap affects only as many rounds as there are agents. None until each agent has finished three.
    """
    ends = sorted(r.heartbeat_at for r in runs if r.state == "finished" and r.heartbeat_at)
    recent = ends[-4 * agents - 1 :]
    if len(recent) <= 3 * agents:
        return None
    rounds = [later - end for end, later in zip(recent, recent[agents:], strict=False)]
    return recent[-1], statistics.median(rounds) / agents
