"""What a sweep has taken: hours of runs, agents and GPUs, dollars where a price is known; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployer.sweeps.results import Row

SECONDS_PER_HOUR = 3600.0
NOT_LOST = (None, "finished", "delivered", "stopped")  # causes of an attempt's end, None: none yet


@dataclass(frozen=True)
class Span:
    """The life of an agent in epoch seconds; `ended_at` is None while it lives.

    `gpus` is how many it has, a share of one where several agents share it; None if unknown.
    """

    started_at: float
    ended_at: float | None
    gpus: float | None = None


@dataclass(frozen=True)
class Cost:
    """Hours that were taken, and dollars.

    `run_hours` is of all runs and their attempts, `lost_hours` what of it went to attempts that
    failed or were interrupted, not to those that somebody stopped. `agent_hours`, `gpu_hours` and
    `usd` are None where they are not known.
    """

    run_hours: float
    lost_hours: float
    agent_hours: float | None
    gpu_hours: float | None
    usd: float | None


def sum_cost(
    rows: Sequence[Row],
    now: float,
    agents: Sequence[Span] | None = None,
    gpus_per_run: float | None = None,
    usd_per_hour: float | None = None,
) -> Cost:
    """Add up what a sweep has taken until `now`, in epoch seconds.

    GPU-hours are those of the agents where each one's number of GPUs is known, else run-hours times
    `gpus_per_run`. `usd_per_hour` is the price of one agent.
    """
    spent = [_spend(row, now) for row in rows]
    run_hours = sum(total for total, _ in spent)
    agent_hours = None if agents is None else sum(_hours(one, now) for one in agents)
    gpu_hours = _sum_gpu_hours(agents, now)
    if gpu_hours is None and gpus_per_run is not None:
        gpu_hours = run_hours * gpus_per_run
    usd = None if usd_per_hour is None or agent_hours is None else agent_hours * usd_per_hour
    return Cost(run_hours, sum(lost for _, lost in spent), agent_hours, gpu_hours, usd)


def _spend(row: Row, now: float) -> tuple[float, float]:
    """Return the hours of a run, and those of them that came to nothing."""
    attempts = [a for a in row.attempts if a.assigned_at is not None]
    if attempts:
        hours = [_hours(Span(a.assigned_at or 0.0, a.ended_at), now) for a in attempts]
        lost = (h for h, a in zip(hours, attempts, strict=True) if a.cause not in NOT_LOST)
        return sum(hours), sum(lost)
    hours_of_run = (row.duration_seconds or 0.0) / SECONDS_PER_HOUR
    return hours_of_run, hours_of_run if row.state in ("failed", "crashed") else 0.0


def _sum_gpu_hours(agents: Sequence[Span] | None, now: float) -> float | None:
    if not agents:
        return None
    hours = [None if one.gpus is None else _hours(one, now) * one.gpus for one in agents]
    known = [one for one in hours if one is not None]
    return sum(known) if len(known) == len(hours) else None


def _hours(span: Span, now: float) -> float:
    ended_at = now if span.ended_at is None else span.ended_at
    return max(0.0, ended_at - span.started_at) / SECONDS_PER_HOUR
