"""The last steps of `up`: plan a sweep's agents, write the lock file, start them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from deployer.config.project import Project
from deployer.executors.base import Executor
from deployer.executors.deadline import find_end
from deployer.executors.registry import find_target
from deployer.executors.target import Target
from deployer.launch.agents.agent_environment import choose_pace
from deployer.launch.agents.one_run_per_job import takes_one_run
from deployer.launch.agents.planning import apply_plan, choose_bound, plan_agents
from deployer.launch.agents.scaling import dismiss_ended, scale_down
from deployer.launch.backend_revival import ask_patiently
from deployer.launch.checks.check import (
    check_reach,
    warn_about_deadline,
    warn_about_many,
    warn_about_port,
)
from deployer.launch.lock.writing import Planned, write_lock
from deployer.launch.packing.decision import settle_packing
from deployer.launch.packing.packer import Packer
from deployer.launch.request import Request
from deployer.model import Agent, Plan, Sweep, SweepPath
from deployer.sweeps.records import Records
from deployer.text import format_count
from deployer.wandb_api.operations import get_sweep, list_runs
from deployer.wandb_api.server import Server

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launch:
    """A sweep with agents at work. A watcher keeps `wanted` of them alive, or what `packer` says.

    Without `wanted` it keeps those that are not dismissed. `expected` is how many configurations
    the file promises, None without end.
    """

    project: Project
    target: Target
    server: Server
    executor: Executor
    path: SweepPath
    agents: tuple[Agent, ...]
    wanted: int | None = None
    expected: int | None = None
    packer: Packer | None = None

    @property
    def sweep_path(self) -> str:
        """Return ENTITY/PROJECT/SWEEP_ID."""
        return str(self.path)


def start_agents(
    project: Project,
    server: Server,
    executor: Executor,
    sweep: Sweep,
    *,
    one_run: bool = False,
    max_seconds: float | None = None,
    expected: int | None = None,
    before: Callable[[Plan], Plan] = lambda plan: plan,
) -> Launch:
    """Start agents until there are as many as the project says; tell what is doubtful about it.

    With `one_run`, or where the sweep's agents are so already, each takes one run. They leave after
    `max_seconds`. `before` is called with the plan, and returns the one that is carried out.
    """
    target, path = find_target(project), sweep.path
    check_reach(target, server.url, server.inside)
    one_run = one_run or any(map(takes_one_run, executor.list_agents(str(path))))
    if one_run and (warning := warn_about_deadline(target)):
        LOG.warning(warning)
    bound, deadline = choose_bound(project, target, one_run), find_end(max_seconds, time.time())
    plan = plan_agents(
        server,
        executor,
        path,
        bound,
        project.code,
        one_run=one_run,
        deadline=deadline,
        pace=choose_pace(project, server.extended),
    )
    for warning in (
        warn_about_many(server, len(plan.agents)),
        warn_about_port(target, sweep.config, plan.asked),
    ):
        if warning:
            LOG.warning(warning)
    if sweep.state == "PAUSED" and plan.agents:
        said = "is PAUSED: agents wait and hold their GPUs until"
        LOG.info(f"{path} {said}: deployer sweep resume {path}")
    server.note_user()
    Records.load().note(str(path), on=target.name)
    plan = before(plan)
    dismiss_ended(executor, executor.list_agents(str(path)), [agent.name for agent in plan.agents])
    agents = tuple(apply_plan(server, executor, plan))
    wanted = len(agents) if any(map(takes_one_run, agents)) else None
    return Launch(project, target, server, executor, path, agents, wanted, expected)


def drain_surplus(launch: Launch, replicas: int | None) -> None:
    """Drain agents beyond the number that the user gave, idle ones first."""
    if replicas is None or launch.packer or not launch.agents:
        return
    runs = list_runs(launch.server.client, launch.path)
    if leaving := scale_down(launch.executor, launch.path, replicas, runs):
        LOG.info(f"draining {', '.join(leaving)}: {format_count(replicas, 'agent')} asked for")


class Start(Protocol):
    """Starts agents of a sweep that was just made or goes on: the last step of `up`."""

    def __call__(
        self,
        project: Project,
        server: Server,
        executor: Executor,
        path: SweepPath,
        request: Request,
    ) -> Launch:
        """Return the sweep with its agents; raises DeployerError."""


def start_asked(
    project: Project,
    server: Server,
    executor: Executor,
    path: SweepPath,
    request: Request,
) -> Launch:
    """Start as many agents as are asked for, after the lock file is written."""
    target = find_target(project)
    project, packer = settle_packing(project, target, request.packing, executor, path)
    launch = start_patiently(project, server, executor, path, request)
    return replace(launch, packer=packer)


def start_patiently(
    project: Project,
    server: Server,
    executor: Executor,
    path: SweepPath,
    request: Request,
    narrow: Callable[[Plan], Plan] = lambda plan: plan,
) -> Launch:
    """Write the lock file and start the agents that `narrow` leaves of the plan."""

    def record(plan: Plan) -> Plan:
        target = find_target(project)
        write_lock(Planned(project, request, server, target, executor, path, plan))
        return narrow(plan)

    def start() -> Launch:
        return start_agents(
            project,
            server,
            executor,
            get_sweep(server.client, path),
            one_run=request.one_run,
            max_seconds=request.max_seconds,
            expected=request.sweep.expected,
            before=record,
        )

    return ask_patiently(server, start)
