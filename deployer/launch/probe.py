"""`up --probe`: one run of the sweep is looked at before the rest is started."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from deployer.agent.settings import COUNT_VARIABLE, PROBE_VARIABLE
from deployer.errors import ConfigError
from deployer.executors.base import Memory, get_usd_per_hour, read_memory
from deployer.launch.agents.one_run_per_job import count_agents, count_left, is_probe
from deployer.launch.agents.planning import choose_bound
from deployer.launch.packing.decision import find_place, settle_packing
from deployer.launch.pipeline import watch_sweep
from deployer.launch.request import Request
from deployer.launch.session import Session
from deployer.launch.starting import Launch, Narrow, start_asked, start_patiently
from deployer.model import Agent, Plan, SweepPath, Wanted
from deployer.sweeps.results import ACTIVE_STATES
from deployer.text import format_count
from deployer.wandb_api.operations import get_memory, get_sweep, list_runs
from deployer.watch.probe import Probe, Report, Rest, Verdict, forecast_rest
from deployer.watch.status import Status, get_status

LOG = logging.getLogger(__name__)

MEMORY_SECONDS = 1.0


def start_probe(session: Session, request: Request) -> Launch:
    """Do what `start_asked` does, but for a single agent and a single run.

    One that goes on from an earlier probe is looked at instead. Raises DeployerError.
    """
    there = tuple(one for one in session.executor.list_agents(session.sweep_path) if one.alive)
    check_alone(there, session.path)
    runs = list_runs(session.server.client, session.path)
    if there:
        LOG.info(f"{there[0].name}, an earlier probe, is at work: this looks at its run")
        runs = tuple(run for run in runs if run.state not in ACTIVE_STATES)
        launch = Launch(**vars(session), agents=there, expected=request.sweep.expected)
    else:
        launch = start_patiently(session, request, narrow_to_probe(request))
    names = frozenset(agent.name for agent in launch.agents)
    return replace(launch, probe=Probe(names, {run.run_id: len(run.attempts) for run in runs}))


def check_alone(agents: Sequence[Agent], path: SweepPath) -> None:
    """Refuse a probe beside agents that are at work already; raises ConfigError."""
    if agents and not all(map(is_probe, agents)):
        said = f"{format_count(len(agents), 'agent')} of {path} work already"
        raise ConfigError("--probe", said, f"deployer watch {path} shows them; or leave it out")


def narrow_to_probe(request: Request) -> Narrow:
    """Return what leaves the first agent of a plan, for one run.

    Where all take one run each, it is one of them.
    """
    own = () if request.one_run else ((COUNT_VARIABLE, "1"), (PROBE_VARIABLE, "1"))

    def narrow(plan: Plan) -> Plan:
        first = (replace(one, environment=(*one.environment, *own)) for one in plan.agents[:1])
        return replace(plan, agents=tuple(first))

    return narrow


def watch_probe(
    launch: Launch, probe: Probe, pending_seconds: float | None = None
) -> Iterator[Status]:
    """Yield the status until the probe's run has ended or enough of it was seen; start nothing.

    Raises StartFailed if the agent cannot start, or has not after `pending_seconds`.
    """
    read_at = 0.0
    for status in watch_sweep(launch, pending_seconds=pending_seconds, every=True):
        memory: Sequence[Memory] = ()
        if (now := time.time()) - read_at >= MEMORY_SECONDS:
            memory, read_at = read_memory(launch.executor, launch.sweep_path), now
        probe.look(status, now, memory)
        yield status
        if probe.over:
            return


def judge(launch: Launch, request: Request, probe: Probe) -> Report:
    """Look for the last time and return what the probe has shown; a run that fails is stopped.

    Its next try is the user's to begin.
    """
    executor, path, client = launch.executor, launch.path, launch.server.client
    # What was seen last may be older than the end of its agent.
    probe.look(get_status(client, executor, path, launch.expected, now := time.time()), now)
    report = probe.report(get_sweep(client, path))
    if report.row and not report.memory:
        memory = get_memory(client, path, report.row.run_id)
        report = replace(report, memory=memory, sampled=True)
    if report.verdict is Verdict.FAILED:
        agents = executor.list_agents(str(path))
        executor.stop([agent.name for agent in agents if agent.alive and not agent.foreign])
    return replace(report, rest=forecast(launch, request, probe, report))


def forecast(launch: Launch, request: Request, probe: Probe, report: Report) -> Rest | None:
    """Return what is left after the probe's run, with the agents that are asked for."""
    if probe.status is None:
        return None
    left = count_left(probe.status.results.coverage)
    rest = forecast_rest(report, probe.status, count_asked(launch, request, left))
    usd = get_usd_per_hour(launch.executor, launch.sweep_path, rest.agents)
    if usd is None or rest.seconds is None:
        return rest
    return replace(rest, usd=usd * rest.seconds / 3600)


def count_asked(launch: Launch, request: Request, left: int | None) -> int:
    """Return how many agents the rest will have at first."""
    project, packing, executor = launch.project, request.packing, launch.executor
    if request.one_run:
        return count_agents(left, choose_bound(project, executor, one_run=True))
    if packing and executor.runs_here:
        count = (packing.agents or 1) * find_place(executor).count
        return min(count, project.given_replicas or count)
    return project.replicas


def start_rest(launch: Launch, request: Request, *, going: bool) -> Launch:
    """Start the agents that are asked for; the probe's counts as one while its run is `going`.

    Then whoever watches starts another in its place.
    """
    there = launch.executor.list_agents(launch.sweep_path)
    working = tuple(one for one in there if one.alive and is_probe(one) and not one.foreign)
    session = Session(launch.project, launch.executor, launch.server, launch.path)
    if not (working and going):
        return start_asked(session, request)
    session, packer = settle_packing(session, request.packing)
    wanted = session.project.replicas
    rest = replace(launch, project=session.project, agents=working, packer=packer)
    if wanted > len(working):
        fewer = replace(session.project, given_replicas=wanted - len(working))
        started = start_patiently(replace(session, project=fewer), request)
        rest = replace(rest, agents=(*working, *started.agents))

    want(launch, wanted)
    return rest


def want(launch: Launch, number: int) -> None:
    """Have so many agents be wanted, the probe's among them, unless all were taken down."""

    def change(old: Wanted | None) -> Wanted | None:
        return old and replace(old, number=number)

    launch.executor.change_wanted(launch.sweep_path, change)
