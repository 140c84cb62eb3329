"""The steps of `up` as library calls: read, make, plan, apply. They raise and print nothing."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deployer.errors import AgentError
from deployer.executors.base import Agent, Executor
from deployer.executors.deadline import build_environment, find_deadline
from deployer.executors.plan import Plan, build_plan
from deployer.launch.one_run_per_job import (
    ENVIRONMENT,
    count_agents,
    count_left,
    list_used_names,
    takes_one_run,
)
from deployer.sweeps.program import check_program
from deployer.sweeps.results import build_results
from deployer.text import format_seconds
from deployer.wandb_api.model import RunInfo, SweepPath
from deployer.wandb_api.operations import create_agent_keys, get_snapshot
from deployer.wandb_api.server import Server
from deployer.watch.agent_runs import join_runs

# W&B's servers were seen to allow 50 to 200 requests a minute. An agent's start and its first run
# take about 20 of them, and each agent that is there sends 12 heartbeats a minute.
RAMP_SECONDS = 6.0
RAMP_JITTER = 0.25
MANY_AGENTS = 20


def plan_agents(
    server: Server,
    executor: Executor,
    path: SweepPath,
    replicas: int | None,
    folder: Path,
    *,
    one_run: bool = False,
    deadline: float | None = None,
) -> Plan:
    """Work out which agents make `replicas` in all: those that stay, and new ones.

    With `one_run`, or where the sweep's agents are so already, each takes one run, and there are as
    many as configurations are left, at most `replicas`. Else None means as many as were released,
    or one. New ones leave at `deadline`, in seconds since the epoch, or with those that are there.
    Raises ConfigError.
    """
    agents = executor.list_agents(str(path))
    one_run = one_run or any(map(takes_one_run, agents))
    if one_run:
        replicas = count_agents(get_left(server, path), replicas)
    elif replicas is None:
        replicas = executor.count_paused(str(path)) or 1
    replicas = max(replicas, sum(map(_stays, agents)))
    if deadline is None and any(agent.alive for agent in agents):
        deadline = find_deadline(agents)
    return _plan(
        server, executor, path, agents, replicas, str(folder), one_run=one_run, deadline=deadline
    )


def plan_draft(server: Server, folder: Path) -> Plan:
    """Plan an agent of a sweep that is not there yet, to ask whether a place would take it."""
    return build_plan(
        sweep_path=str(SweepPath(server.viewer.entity, "project", "draft")),
        base_url=server.url,
        folder=str(folder),
        replicas=1,
        own_keys=server.extended,
    )


def plan_replacement(
    server: Server,
    executor: Executor,
    path: SweepPath,
    count: int,
    avoided: Sequence[str],
    folder: Path,
    *,
    avoided_nodes: Sequence[str] = (),
) -> Plan:
    """Plan `count` agents more than stay, none under an `avoided` name, where they worked before.

    `folder` is for a place that does not know where; they keep off `avoided_nodes`.
    """
    agents = executor.list_agents(str(path))
    folders = [a.folder for a in agents if a.folder]
    return _plan(
        server,
        executor,
        path,
        agents,
        sum(map(_stays, agents)) + count,
        folders[-1] if folders else str(folder),
        one_run=any(map(takes_one_run, agents)),
        deadline=find_deadline(agents),
        avoided=avoided,
        avoided_nodes=avoided_nodes,
    )


@dataclass(frozen=True)
class AgentStarter:
    """Starts more of a sweep's agents for a watcher; see `plan_replacement`."""

    server: Server
    executor: Executor
    path: SweepPath
    folder: Path

    def plan(self, count: int, avoided: Sequence[str], avoided_nodes: Sequence[str]) -> Plan:
        """Plan `count` agents more, none under an `avoided` name or on an avoided node."""
        return plan_replacement(
            self.server,
            self.executor,
            self.path,
            count,
            avoided,
            self.folder,
            avoided_nodes=avoided_nodes,
        )

    def start(self, plan: Plan) -> None:
        """Start the plan's agents."""
        apply_plan(self.server, self.executor, plan)


def _plan(
    server: Server,
    executor: Executor,
    path: SweepPath,
    agents: Sequence[Agent],
    replicas: int,
    folder: str,
    *,
    one_run: bool,
    deadline: float | None,
    avoided: Sequence[str] = (),
    avoided_nodes: Sequence[str] = (),
) -> Plan:
    leaving = [a.name for a in agents if a.alive and not _stays(a)]
    return build_plan(
        sweep_path=str(path),
        base_url=server.url,
        folder=folder,
        replicas=replicas,
        existing=[a.name for a in agents if _stays(a)],
        leaving=[*leaving, *list_used_names(agents), *avoided],
        gpus=executor.list_gpus(),
        environment=(*(ENVIRONMENT if one_run else ()), *build_environment(deadline)),
        avoided_nodes=avoided_nodes,
        own_keys=server.extended,
        deadline=deadline,
    )


def get_left(server: Server, path: SweepPath) -> int | None:
    """Return how many configurations of a sweep are left; None for one without end."""
    snapshot = get_snapshot(server.client, path)
    return count_left(build_results(snapshot.sweep, snapshot.runs).coverage)


def warn_about_many(server: Server, replicas: int) -> str:
    """Say why more agents may not help on a server with W&B's limits; empty if all is well."""
    if server.extended or replicas <= MANY_AGENTS:
        return ""
    return (
        f"{replicas} agents send {12 * replicas} heartbeats a minute; W&B's servers were seen to "
        f"refuse more than 200 requests a minute, so above {MANY_AGENTS} agents runs come late"
    )


def check_program_here(on: str, config: Mapping[str, Any], folder: Path, place: str) -> None:
    """Refuse a program that the agents would not find, where they have this folder's code.

    Raises ConfigError.
    """
    if on != "local":
        from deployer.config.kubernetes_section import load_cluster

        if load_cluster(folder).code != "archive":
            return
    check_program(config, folder, place)


def warn_about_code(on: str, folder: Path) -> str:
    """Say which files agents in a cluster will lack though they lie in the folder, else empty."""
    if on == "local":
        return ""
    from deployer.config.kubernetes_section import load_cluster
    from deployer.images.code_archive import warn_about_left_out

    return warn_about_left_out(folder) if load_cluster(folder).code == "archive" else ""


def warn_about_deadline(on: str, folder: Path) -> str:
    """Say that Jobs which wait for their turn come nearer to their end meanwhile, else empty.

    A queue suspends them until they may run, and only then their time begins.
    """
    if on == "local":
        return ""
    from deployer.config.kubernetes_section import load_cluster

    cluster = load_cluster(folder)
    if cluster.queue or cluster.max_time is None:
        return ""
    seconds = cluster.max_time.total_seconds()
    return (
        f"kubernetes.max_time: each Job ends after {format_seconds(seconds)}, its wait for a "
        "free place included; --replicas N makes the next ones only when there is room"
    )


def build_ramp(count: int, chance: random.Random) -> tuple[float, ...]:
    """Return the seconds to wait before each of `count` starts, so that limits bear them."""
    spread = (1 - RAMP_JITTER, 1 + RAMP_JITTER)
    return tuple(RAMP_SECONDS * chance.uniform(*spread) if n else 0.0 for n in range(count))


def apply_plan(
    server: Server,
    executor: Executor,
    plan: Plan,
    sleep: Callable[[float], None] = time.sleep,
    chance: random.Random | None = None,
) -> Sequence[Agent]:
    """Start the plan's agents that are not alive yet, each with its own key if it can have one.

    On a server with W&B's limits they start one after another.
    """
    alive = {a.name for a in executor.list_agents(plan.sweep_path) if a.alive}
    missing = tuple(agent.name for agent in plan.agents if agent.name not in alive)
    path = SweepPath(*plan.sweep_path.split("/"))
    keys = create_agent_keys(server.client, path, missing, uuid.uuid4().hex) if missing else {}
    if server.extended:
        return executor.apply(plan, keys)
    starting = [agent for agent in plan.agents if agent.name in missing]
    for agent, seconds in zip(
        starting, build_ramp(len(starting), chance or random.Random()), strict=True
    ):
        sleep(seconds)
        executor.apply(replace(plan, agents=(agent,)), keys)
    names = {agent.name for agent in plan.agents}
    return [a for a in executor.list_agents(plan.sweep_path) if a.name in names]


def scale_down(
    executor: Executor, path: SweepPath, replicas: int, runs: Sequence[RunInfo] = ()
) -> tuple[str, ...]:
    """Drain agents until `replicas` stay, idle ones first; return the names of those that go.

    `runs` tell who is idle where the place cannot.
    """
    leaving = choose_leaving(join_runs(executor.list_agents(str(path)), runs), replicas)
    if leaving:
        executor.drain(leaving)
    return leaving


def choose_leaving(agents: Sequence[Agent], replicas: int) -> tuple[str, ...]:
    """Return who leaves until `replicas` stay: idle ones first, of these the youngest; pure."""
    staying = [a for a in agents if _stays(a)]
    by_idleness = sorted(staying, key=lambda a: (a.run_id is not None, -a.started_at))
    return tuple(a.name for a in by_idleness[: max(0, len(staying) - replicas)])


def end_agents(executor: Executor, sweep_path: str | None) -> tuple[str, ...]:
    """Interrupt one sweep's agents, or all, and delete what was kept about them.

    Whoever watches them sees first that they are dismissed, and starts none again.
    """
    agents = executor.list_agents(sweep_path)
    executor.dismiss([agent.name for agent in agents])
    # Lost ones too: their runs may still be going.
    names = [agent.name for agent in agents if agent.state != "ended"]
    stopped = tuple(executor.stop(names)) if names else ()
    executor.forget(sweep_path)
    return stopped


def check_names(executor: Executor, path: SweepPath, names: Sequence[str]) -> list[str]:
    """Return the names if all are agents of the sweep; raises AgentError."""
    known = [a.name for a in executor.list_agents(str(path))]
    for name in names:
        if name not in known:
            raise AgentError(
                f"{path} has no agent '{name}'", f"its agents: {', '.join(known) or 'none'}"
            )
    return list(names)


def _stays(agent: Agent) -> bool:
    return agent.alive and agent.state not in ("draining", "stopping")
