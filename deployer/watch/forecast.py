"""When a sweep will be over, from what its runs have taken so far; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from deployer.sweeps.results import ACTIVE_STATES, Results, run_seconds
from deployer.wandb_api.model import RunInfo

# Between two runs an agent waits for its next poll, and the run for the SDK to start.
AGENT_POLL_SECONDS = 5.0


def forecast_end(
    results: Results, runs: Sequence[RunInfo], agents: int, now: float
) -> float | None:
    """Estimate when the last configuration is finished: what is left, shared by living agents.

    None before the first run has finished, for an endless sweep, without agents, and at the end.
    """
    left = results.coverage.waiting + results.coverage.running
    if results.coverage.expected is None or not agents or not left:
        return None
    if (pace := finishing_pace(runs, agents)) is not None:
        last, seconds = pace
        # The next one is overdue, or the clock was set: then it is due now, the others after it.
        ends_at = max(min(last, now) + left * seconds, now + (left - 1) * seconds)
        return ends_at if ends_at > now else None
    durations = [d for r in runs if r.state == "finished" and (d := run_seconds(r)) is not None]
    if not durations:
        return None
    usual = statistics.median(durations) + AGENT_POLL_SECONDS
    spent = sum(
        min(usual, max(0.0, now - run.created_at))
        for run in runs
        if run.state in ACTIVE_STATES and run.created_at is not None
    )
    remaining = left * usual - spent
    return now + remaining / min(agents, left) if remaining > 0 else None


def finishing_pace(runs: Sequence[RunInfo], agents: int) -> tuple[float, float] | None:
    """Return when the last run finished and the seconds from one finish to the next.

    It has everything in it: starting the SDK, the agent's polls, data that is loaded again. The
    median of whole rounds, so that a night without agents, or a clock that is set, does not count:
    as many rounds as there are agents have it in them. None until each agent has finished three.
    """
    ends = sorted(r.heartbeat_at for r in runs if r.state == "finished" and r.heartbeat_at)
    recent = ends[-4 * agents - 1 :]
    if len(recent) <= 3 * agents:
        return None
    rounds = [later - end for end, later in zip(recent, recent[agents:], strict=False)]
    return recent[-1], statistics.median(rounds) / agents
