"""Level-triggered watching: read everything, summarise it purely, show it on changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deployer.analysis.forecast import forecast_end
from deployer.errors import KubeError, WandbError, WatchTimeout
from deployer.executors.base import Executor
from deployer.executors.plan import find_deadline
from deployer.model import Agent, Run, Sweep, SweepPath
from deployer.sweeps.configuration_list import (
    configuration_key,
    flatten_configuration,
    list_parameters,
)
from deployer.sweeps.rerun import count_reused
from deployer.sweeps.results import ACTIVE_STATES, Coverage, Results, Row, build_results, is_done
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import AgentInfo, Snapshot
from deployer.wandb_api.operations import get_snapshot as read_snapshot

# An agent contacts the server within seconds; its Job, from which we count, may wait for its image.
UNHEARD_SECONDS = 30.0
UNHEARD = "still importing; see: deployer agents logs"
POLL_SECONDS = 2.0
# The poll interval is a fraction of the time since the sweep's start or end, if the server permits
# it, so that the watcher of a short sweep soon notices its end.
SHORTEST_SECONDS = 0.25
SHARE = 0.05
# An agent sends a heartbeat every 5 s, or up to every 60 s while the server has problems.
SILENT_AGENT_SECONDS = 120.0
GONE_AGENT_STATES = ("FINISHED", "CRASHED", "FAILED", "KILLED", "STOPPED", "EXITED")


def join_runs(agents: Sequence[Agent], runs: Sequence[Run]) -> tuple[Agent, ...]:
    """Assign the active runs to the living agents that have their open attempts.

    An executor that knows its agents' runs takes precedence. Servers that keep no attempts
    contribute nothing.
    """
    open_attempts = {
        run.attempts[-1].agent: run.run_id
        for run in runs
        if run.state in ACTIVE_STATES and run.attempts and run.attempts[-1].cause is None
    }
    return tuple(
        replace(agent, run_id=agent.run_id or open_attempts.get(agent.name))
        if agent.alive
        else agent
        for agent in agents
    )


def note_unheard(agents: Sequence[Agent], heard: bool, now: float) -> tuple[Agent, ...]:
    """Mark agents that have been running for a while if no agent has contacted the server yet.

    `heard` is True if one has; `now` is in seconds since the epoch.
    """
    return tuple(
        replace(agent, reason=UNHEARD)
        if not (heard or agent.run_id or agent.reason)
        and agent.state == "running"
        and now - agent.started_at > UNHEARD_SECONDS
        else agent
        for agent in agents
    )


# What a watcher stops on servers that assign too much: duplicates, overshooting sweeps; pure. W&B's
# servers give parallel agents the same configuration and continue after the last one of a grid
# (wandb/wandb issues 4323, 4283, 7173).


def is_overshooting(sweep: Sweep, coverage: Coverage) -> bool:
    """Return True if a sweep continues although every expected configuration is finished."""
    return (
        not sweep.ended and coverage.expected is not None and coverage.finished >= coverage.expected
    )


def find_duplicates(sweep: Sweep, runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return active runs of a grid whose configuration is finished, or active in an older run.

    A run that has not reported its configuration yet is left alone.
    """
    if sweep.method != "grid":
        return ()
    names = list_parameters(sweep.config)
    taken = set()
    duplicates = []
    # Finished runs come first, then older ones; servers list runs in order of creation, which
    # decides within one second.
    by_age = sorted(
        runs, key=lambda run: (not is_done(sweep, run.state), run.created_at or math.inf)
    )
    for run in by_age:
        flat = flatten_configuration(run.config, names)
        active = run.state in ACTIVE_STATES
        if len(flat) < len(names) or not (active or is_done(sweep, run.state)):
            continue
        key = configuration_key(flat)
        if active and key in taken:
            duplicates.append(run)
        taken.add(key)
    return tuple(duplicates)


@dataclass(frozen=True)
class Status:
    """A sweep at one moment.

    `agents` are those of our executor, `other_agents` the number of live agents elsewhere.
    `ends_at` is a forecast in seconds since the epoch. `duplicates` are runs of configurations that
    already run or ran; `overshooting`: the sweep should have ended. `trouble` is the error of a
    server that did not answer: everything else is then stale. `reused` configurations, finished by
    another sweep, are in no other count. `deadline` is when the agents leave, even if work remains;
    `out_of_time`: it has passed.
    """

    sweep_path: str
    sweep_state: str
    title: str
    metric: str | None
    counts: Mapping[str, int]
    results: Results
    agents: tuple[Agent, ...]
    other_agents: int
    ends_at: float | None
    duplicates: tuple[Run, ...] = ()
    overshooting: bool = False
    trouble: str = ""
    deadline: float | None = None
    out_of_time: bool = False
    runs: tuple[Run, ...] = ()
    reused: int = 0

    @property
    def best(self) -> Row | None:
        return self.results.best

    @property
    def living_agents(self) -> int:
        return sum(agent.alive for agent in self.agents)

    @cached_property
    def _rows(self) -> Mapping[str | None, Row]:
        return {row.run_id: row for row in self.results.rows if row.run_id}

    def find_row(self, agent: Agent) -> Row | None:
        return self._rows.get(agent.run_id)

    @property
    def over(self) -> bool:
        """Return True if no agent works and no run is active.

        A run without a living agent counts only while its sweep is open: its server may still
        notice that it is gone.
        """
        if self.trouble or self.living_agents:
            return False
        if self.ended:
            return not self.counts.get("running")
        return not self.other_agents

    @property
    def ended(self) -> bool:
        """Return True if the server assigns no more runs; agents may still be leaving."""
        return self.results.state in ("FINISHED", "CANCELED")


def summarise_status(
    sweep: Sweep,
    runs: Sequence[Run],
    agents: Sequence[Agent],
    other_agents: int,
    expected: int | None,
    now: float,
) -> Status:
    """Summarise the data read as a status; pure. `now` is in seconds since the epoch."""
    results = build_results(sweep, runs, expected)
    deadline = find_deadline(agents)
    return Status(
        sweep_path=str(sweep.path),
        sweep_state=sweep.state,
        title=sweep.title,
        metric=sweep.metric_name,
        counts=dict(Counter(run.state for run in runs)),
        results=results,
        agents=tuple(agents),
        other_agents=other_agents,
        ends_at=forecast_end(results, runs, sum(a.alive for a in agents) + other_agents, now),
        duplicates=find_duplicates(sweep, runs),
        overshooting=is_overshooting(sweep, results.coverage),
        deadline=deadline,
        out_of_time=deadline is not None and deadline <= now,
        runs=tuple(runs),
        reused=count_reused(sweep),
    )


def count_other_agents(
    server_agents: Sequence[AgentInfo], ours: Collection[str], now: float
) -> int:
    """Count living agents on the server other than our own.

    The embedded backend knows the names of our supervisors. W&B's servers only know hosts, so there
    we subtract our number of agents.
    """
    others = sum(
        agent.state not in GONE_AGENT_STATES
        and agent.heartbeat_at is not None
        and now - agent.heartbeat_at < SILENT_AGENT_SECONDS
        and agent.name not in ours
        for agent in server_agents
    )
    nameless = len(set(ours) - {agent.name for agent in server_agents})
    return max(0, others - nameless)


def get_status(
    client: Client,
    executor: Executor,
    path: SweepPath,
    expected: int | None,
    now: float,
    ours: Collection[str] = (),
) -> Status:
    """Read the sweep from its server and its agents from their executor, once.

    `ours` are names of earlier agents of ours, which may be forgotten by now.
    """
    snapshot: Snapshot = read_snapshot(client, path)
    agents = join_runs(executor.list_agents(str(path)), snapshot.runs)
    agents = note_unheard(agents, bool(snapshot.agents or snapshot.runs), now)
    others = count_other_agents(snapshot.agents, {*ours, *(agent.name for agent in agents)}, now)
    return summarise_status(snapshot.sweep, snapshot.runs, agents, others, expected, now)


def watch_status(
    read: Callable[[float], Status],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    timeout_seconds: float | None = None,
    reconcile: Callable[[Status], bool] = lambda _: False,
    *,
    quick: bool = False,
    every: bool = False,
) -> Iterator[Status]:
    """Yield the status on each change, or `every` time, until the sweep is over.

    `reconcile` reacts to each status and returns True if the sweep continues as a result. `quick`
    watchers poll often at the beginning and at the end. Waits while the server is unreachable, also
    at first. Raises WatchTimeout, or WandbError for a permanent refusal.
    """
    started = turned = clock()
    ended = False
    last: Status | None = None
    while True:
        status = _read_patiently(read, last, clock())
        if status is not None and (every or last is None or _shown(status) != _shown(last)):
            yield status
        last = status or last
        goes_on = status is not None and reconcile(status)
        if last is not None and last.over and not goes_on:
            return
        if timeout_seconds is not None and clock() - started >= timeout_seconds:
            path = last.sweep_path if last else ""
            raise WatchTimeout(
                f"the sweep still runs after {timeout_seconds:g} s",
                f"deployer watch {path}".rstrip(),
            )
        if last is not None and last.ended and not ended:
            turned, ended = clock(), True
        sleep(choose_wait(clock() - turned) if quick else POLL_SECONDS)


def choose_wait(seconds: float) -> float:
    """Return the poll interval, given the seconds since the beginning or the end."""
    return min(max(SHORTEST_SECONDS, SHARE * seconds), POLL_SECONDS)


def _read_patiently(
    read: Callable[[float], Status], last: Status | None, now: float
) -> Status | None:
    try:
        return read(now)
    except (WandbError, KubeError) as error:
        if not error.passing:
            raise
        return last and replace(last, trouble=error.message)


def _shown(status: Status) -> tuple[object, ...]:
    """Return the values whose change is worth a new line; small forecast changes are not."""
    best = status.best
    return (
        status.sweep_state,
        tuple(sorted(status.counts.items())),
        status.agents,
        tuple(row and row.value for row in map(status.find_row, status.agents)),
        status.other_agents,
        best and (best.run_id, best.value),
        status.trouble,
    )
