"""The last steps of `up`: plan a sweep's agents, start them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

from deployer.config.project import Project
from deployer.errors import KubeError
from deployer.executors.base import list_gpus
from deployer.executors.deadline import find_end
from deployer.executors.registry import find_executor
from deployer.launch.agents.agent_environment import choose_pace
from deployer.launch.agents.one_run_per_job import takes_one_run
from deployer.launch.agents.planning import apply_plan, choose_bound, plan_agents
from deployer.launch.agents.scaling import scale_down
from deployer.launch.backend_revival import ask_patiently
from deployer.launch.checks.check import (
    check_reach,
    warn_about_deadline,
    warn_about_many,
    warn_about_port,
)
from deployer.launch.remains import describe_elsewhere
from deployer.launch.request import Request
from deployer.launch.session import Session
from deployer.model import Agent, Sweep
from deployer.sweeps.records import Records
from deployer.text import format_count
from deployer.wandb_api.operations import get_sweep, list_runs

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launch(Session):
    """A sweep with agents at work, of which `started` names those that were not there before.

    `expected` is how many configurations the file promises, None without end.
    """

    agents: tuple[Agent, ...] = ()
    started: tuple[str, ...] = ()
    expected: int | None = None


def start_agents(
    session: Session,
    sweep: Sweep,
    *,
    one_run: bool = False,
    max_seconds: float | None = None,
    request: Request | None = None,
) -> Launch:
    """Start agents until there are as many as the project says; tell what is doubtful about it.

    With `one_run`, or where the sweep's agents are so already, each takes one run. They leave after
    `max_seconds`.
    """
    project, executor, server = session.project, session.executor, session.server
    path = session.sweep_path
    check_reach(executor, server.url, server.inside)
    there = executor.list_agents(path)
    one_run = one_run or any(map(takes_one_run, there))
    if one_run and (warning := warn_about_deadline(executor)):
        LOG.warning(warning)
    bound, deadline = choose_bound(project, executor, one_run), find_end(max_seconds, time.time())
    plan = plan_agents(
        server,
        executor,
        session.path,
        bound,
        project.code,
        one_run=one_run,
        deadline=deadline,
        pace=choose_pace(project, server.extended),
        agents=there,
    )
    for warning in (
        warn_about_many(server, len(plan.agents)),
        warn_about_port(executor, sweep.config, plan.asked),
    ):
        if warning:
            LOG.warning(warning)
    if sweep.state == "PAUSED" and plan.agents:
        said = "is PAUSED: agents wait and hold their GPUs until"
        LOG.info(f"{path} {said}: deployer sweep resume {path}")
    server.note_user()
    for line in describe_elsewhere(executor, path):
        LOG.info(line)
    pinned = bool(project.named_cluster)
    Records.load().note(path, on=executor.name, pinned=pinned, **executor.address)
    agents = tuple(apply_plan(server, executor, plan))
    alive = {agent.name for agent in there if agent.alive}
    started = tuple(agent.name for agent in agents if agent.name not in alive)
    expected = request.sweep.expected if request else None
    return Launch(**vars(session), agents=agents, started=started, expected=expected)


def drain_surplus(launch: Launch, replicas: int | None) -> None:
    """Drain agents beyond the number that the user gave, idle ones first."""
    if replicas is None or not launch.agents:
        return
    runs = list_runs(launch.server.client, launch.path)
    if leaving := scale_down(launch.executor, launch.path, replicas, runs):
        LOG.info(f"draining {', '.join(leaving)}: {format_count(replicas, 'agent')} asked for")


def prepare_packing(project: Project, packing: int | None) -> Project:
    """Return the project for agents of which `packing` share a pod."""
    if packing is None:
        return project
    from deployer.config.sections.kubernetes import MOST_PER_POD  # pydantic

    if packing > MOST_PER_POD and find_executor(project).runs_here:
        return project  # no pod has them
    return project.with_kubernetes(agents_per_pod=packing)


def _settle_packing(session: Session, packing: int | None) -> Session:
    """Return the session for `packing` agents on each GPU here, but never more than --replicas."""
    executor, most = session.executor, session.project.given_replicas
    if packing is None or not executor.runs_here:
        return session
    count = packing * max(1, len(list_gpus(executor)))
    count = min(count, most or count)
    return replace(session, project=replace(session.project, replicas=count, given_replicas=count))


def start_asked(session: Session, request: Request) -> Launch:
    """Start as many agents as are asked for.

    If the cluster refuses more agents, those that are there are watched all the same.
    """
    session = _settle_packing(session, request.packing)
    server = session.server
    try:
        return ask_patiently(
            server,
            lambda: start_agents(
                session,
                get_sweep(server.client, session.path),
                one_run=request.one_run,
                max_seconds=request.max_seconds,
                request=request,
            ),
        )
    except KubeError as error:
        if not error.forbidden:
            raise
        there = session.executor.list_agents(session.sweep_path)
        working = [agent.name for agent in there if agent.alive and not agent.foreign]
        if not working:
            raise
        hint = f"; {error.hint}" if error.hint else ""
        LOG.warning(f"only {', '.join(working)} started: {error.message}{hint}")
        LOG.info(f"for more, later: deployer agents up {session.path} --replicas N")
        agents = tuple(agent for agent in there if agent.name in working)
        return Launch(**vars(session), agents=agents, expected=request.sweep.expected)
