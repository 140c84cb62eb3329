"""The planned agents of a sweep, their environment, and their start."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from deployer.agent.settings import (
    COUNT_VARIABLE,
    DEADLINE_VARIABLE,
    ISOLATE_VARIABLE,
    METRICS_VARIABLE,
    POLLS_VARIABLE,
    QUICK,
    STOCK,
    WARM_VARIABLE,
    parse_warm,
)
from deployer.config.project import COMMIT_VARIABLE, REPOSITORY_VARIABLE, Code, Project
from deployer.errors import DeployerError
from deployer.executors.base import Executor
from deployer.executors.plan import build_plan, find_deadline, split_by_pod
from deployer.launch.scaling import (
    count_agents,
    count_left,
    list_used_names,
    read_wanted,
    stays,
    takes_one_run,
)
from deployer.model import Agent, AgentPlan, Plan, SweepPath, Wanted
from deployer.sweeps.results import build_results
from deployer.wandb_api.operations import create_agent_keys, get_snapshot
from deployer.wandb_api.server import Server
from deployer.watch.rules import count_missing, find_lack

# W&B's servers were seen to allow 50 to 200 requests a minute. An agent's start and its first run
# take about 20 of them, and each existing agent sends 12 heartbeats a minute.
RAMP_SECONDS = 6.0
RAMP_JITTER = 0.25


@dataclass(frozen=True)
class Pace:
    """How an agent's runs start and end.

    `polls` is how it notices the end of a run, `quick` or `stock`. `warm` runs are forked, with
    `warm_packages` preloaded in addition to the agent's own list. With `metrics`, a wrapper opens
    each run and reads its metrics, and exit code 0 is success; it is empty for scripts that log
    them. With `isolate`, each run works in its own folder.
    """

    polls: str = STOCK
    warm: bool = False
    warm_packages: tuple[str, ...] = ()
    metrics: str = ""
    isolate: bool = False


def build_environment(
    one_run: bool, deadline: float | None, pace: Pace
) -> tuple[tuple[str, str], ...]:
    """Return an agent's variables; `deadline` is in seconds since the epoch, None for never."""
    told = {
        COUNT_VARIABLE: "1" if one_run else "",
        DEADLINE_VARIABLE: "" if deadline is None else f"{deadline:.0f}",
        POLLS_VARIABLE: "" if pace.polls == STOCK else pace.polls,
        WARM_VARIABLE: " ".join(("1", *pace.warm_packages)) if pace.warm else "",
        METRICS_VARIABLE: pace.metrics,
        ISOLATE_VARIABLE: "1" if pace.isolate else "",
    }
    return tuple((name, value) for name, value in told.items() if value)


def choose_pace(project: Project, extended: bool) -> Pace:
    """Return a sweep's pace; W&B's own servers would refuse frequent polls."""
    settings = project.settings
    polls = settings.polls or (QUICK if extended else STOCK)
    packages = settings.warm if isinstance(settings.warm, tuple) else ()
    warm = (settings.warm is not False, packages)
    return Pace(polls, *warm, project.metrics.variable, settings.isolate)


def find_pace(agents: Sequence[Agent]) -> Pace:
    """Return the pace of a sweep's youngest agent; they are ordered oldest first."""
    told = agents[-1].environment if agents else {}
    polls = told.get(POLLS_VARIABLE, STOCK)
    warm, isolate = parse_warm(told.get(WARM_VARIABLE, "")), ISOLATE_VARIABLE in told
    return Pace(polls, *warm, told.get(METRICS_VARIABLE, ""), isolate)


def choose_bound(project: Project, executor: Executor, one_run: bool) -> int | None:
    """Return the number of agents to have; None for the present number, or one per run.

    A cluster queues agents that do not fit; this machine does not.
    """
    return project.replicas if one_run and executor.runs_here else project.given_replicas


def build_draft(project: Project, base_url: str, own_keys: bool) -> Plan:
    """Plan an agent of a future sweep, to check whether it would be accepted; pure."""
    return build_plan(
        sweep_path=str(SweepPath("entity", "project", "draft")),
        base_url=base_url,
        folder=str(project.code.folder),
        replicas=1,
        own_keys=own_keys,
    )


def plan_agents(
    server: Server,
    executor: Executor,
    path: SweepPath,
    replicas: int | None,
    code: Code,
    *,
    one_run: bool = False,
    deadline: float | None = None,
    pace: Pace | None = None,
    agents: Sequence[Agent] | None = None,
) -> Plan:
    """Plan `replicas` agents in total: those that stay, and new ones with this code.

    With `one_run`, or if the sweep's agents already are so, each takes one run, and there is one
    agent for each remaining configuration, at most `replicas`. Otherwise None means one. New ones
    leave at `deadline`, in seconds since the epoch, or with the existing ones. Without `pace` they
    have that of the existing ones. `agents` are the existing ones, if the caller has just listed
    them. Raises ConfigError.
    """
    if agents is None:
        agents = executor.list_agents(str(path))
    wanted = read_wanted(executor, str(path))
    one_run = one_run or any(map(takes_one_run, agents))
    if one_run:
        replicas = count_agents(get_left(server, path), replicas)
    elif replicas is None:
        replicas = 1
    replicas = max(replicas, sum(stays(agent, wanted) for agent in agents))
    if deadline is None and any(agent.alive for agent in agents):
        deadline = find_deadline(agents)
    return _plan(
        server,
        executor,
        path,
        agents,
        wanted,
        replicas,
        code,
        one_run=one_run,
        deadline=deadline,
        pace=pace or find_pace(agents),
    )


@dataclass(frozen=True)
class AgentStarter:
    """Starts more agents of a sweep for a watcher, as its `Starter`.

    They work in the folder of the earlier ones; `folder` is for an executor that does not know it.
    """

    server: Server
    executor: Executor
    path: SweepPath
    folder: Path

    def plan(self, count: int, avoided: Sequence[str], avoided_nodes: Sequence[str]) -> Plan:
        """Plan `count` more agents, or fewer if fewer are missing by now."""
        agents = self.executor.list_agents(str(self.path))
        wanted = read_wanted(self.executor, str(self.path))
        missing = min(count, count_missing(agents, wanted)) if wanted else 0
        staying = sum(stays(agent, wanted) for agent in agents)
        return _plan(
            self.server,
            self.executor,
            self.path,
            agents,
            wanted,
            staying + max(0, missing),
            _find_code(agents, self.folder),
            one_run=any(map(takes_one_run, agents)),
            deadline=find_deadline(agents),
            pace=find_pace(agents),
            avoided=[*avoided, *(wanted.leaving if wanted else ())],
            avoided_nodes=avoided_nodes,
        )

    def start(self, plan: Plan) -> Sequence[Agent]:
        agents = self.executor.list_agents(plan.sweep_path)
        return start_missing(self.server, self.executor, plan, agents)


def _plan(
    server: Server,
    executor: Executor,
    path: SweepPath,
    agents: Sequence[Agent],
    wanted: Wanted | None,
    replicas: int,
    code: Code,
    *,
    one_run: bool,
    deadline: float | None,
    pace: Pace,
    avoided: Sequence[str] = (),
    avoided_nodes: Sequence[str] = (),
) -> Plan:
    staying = [agent for agent in agents if stays(agent, wanted)]
    existing = [agent.name for agent in staying]
    others = [a.name for a in agents if (a.alive or a.foreign) and a.name not in existing]
    gone = wanted.leaving if wanted else frozenset()
    used = list_used_names(agents)
    plan = build_plan(
        sweep_path=str(path),
        base_url=server.url,
        folder=str(code.folder),
        replicas=replicas,
        existing=existing,
        leaving=[*others, *used, *avoided],
        preferred=[a.name for a in agents if not a.alive and a.name not in gone],
        gpus=executor.gpus or (),
        environment=(*build_environment(one_run, deadline, pace), *code.variables),
        avoided_nodes=avoided_nodes,
        own_keys=server.extended,
        deadline=deadline,
    )
    return replace(plan, asked=len(plan.agents) - sum(agent.foreign for agent in staying))


def _find_code(agents: Sequence[Agent], folder: Path) -> Code:
    """Return the code of the existing agents, so that replacements run the same."""
    folders = [Path(agent.folder) for agent in agents if agent.folder]
    told = agents[-1].environment if agents else {}
    return Code(
        folders[-1] if folders else folder,
        told.get(COMMIT_VARIABLE, ""),
        told.get(REPOSITORY_VARIABLE, ""),
    )


def get_left(server: Server, path: SweepPath) -> int | None:
    """Return the number of remaining configurations; None if the sweep is endless."""
    snapshot = get_snapshot(server.client, path)
    return count_left(build_results(snapshot.sweep, snapshot.runs).coverage)


def build_ramp(count: int, chance: random.Random) -> tuple[float, ...]:
    """Return the seconds to wait before each of `count` starts, to stay below rate limits."""
    spread = (1 - RAMP_JITTER, 1 + RAMP_JITTER)
    return tuple(RAMP_SECONDS * chance.uniform(*spread) if n else 0.0 for n in range(count))


def apply_plan(
    server: Server,
    executor: Executor,
    plan: Plan,
    sleep: Callable[[float], None] = time.sleep,
) -> Sequence[Agent]:
    """Start the plan's missing agents after recording the wanted number; return all agents.

    If they start one after another, the number is raised each time. The caller's ended agents are
    no longer wanted, and lost ones are stopped, because a returning node or a Job could revive
    them. If none can be started, the wanted number is restored.
    """
    path, planned = plan.sweep_path, {agent.name for agent in plan.agents}
    agents, before = executor.list_agents(path), read_wanted(executor, path)
    over = {a.name for a in agents if not (a.alive or a.foreign)} - planned
    in_turn = not server.extended
    later = planned - {agent.name for agent in agents if agent.alive} if in_turn else ()
    first = max(0, plan.asked - len(later))

    def change(old: Wanted | None) -> Wanted:
        told = old.leaving & {agent.name for agent in agents} if old else frozenset[str]()
        return Wanted(first, (told | over) - planned)

    executor.wanted.change(path, change)
    try:
        if lost := [a.name for a in agents if a.state == "lost" and a.name in over]:
            executor.stop(lost)
            agents = executor.list_agents(path)
        start_missing(server, executor, plan, agents, sleep, first if in_turn else None)
    except DeployerError:
        with suppress(DeployerError):
            _take_back(executor, path, before)
        raise
    return [agent for agent in executor.list_agents(path) if agent.name in planned]


def _take_back(executor: Executor, path: str, before: Wanted | None) -> None:
    """Restore the wanted number after a failed start, at least the number of present agents."""
    wanted = read_wanted(executor, path)
    there = [a for a in executor.list_agents(path) if stays(a, wanted) and not a.foreign]
    if before or there:
        number = max(before.number if before else 0, len(there))
        executor.wanted.change(path, lambda old: old and replace(old, number=number))
    else:
        executor.wanted.withdraw(path)


def list_missing(plan: Plan, agents: Iterable[Agent]) -> list[AgentPlan]:
    """Return the plan's agents that are not alive, or whose objects are missing; pure."""
    there = {agent.name for agent in agents if agent.alive and not find_lack(agent)}
    return [agent for agent in plan.agents if agent.name not in there]


def start_missing(
    server: Server,
    executor: Executor,
    plan: Plan,
    agents: Sequence[Agent],
    sleep: Callable[[float], None] = time.sleep,
    wanted: int | None = None,
) -> Sequence[Agent]:
    """Start the plan's missing agents, each with its own key if possible.

    `agents` are the existing ones. Those whose objects are missing are stopped first, because a new
    start creates the objects again. On a server with W&B's limits they start one after another;
    `wanted` is the number before, which is raised each time. Stops as soon as another command wants
    something else. Returns the agents that it has started.
    """
    starting, path = list_missing(plan, agents), plan.sweep_path
    if not starting:
        return ()
    names = tuple(agent.name for agent in starting)
    if lacking := [a.name for a in agents if a.alive and a.name in names]:
        executor.stop(lacking)
    keys = create_agent_keys(server.client, SweepPath(*path.split("/")), names, uuid.uuid4().hex)
    started: list[Agent] = []
    for wait, group in _group_starts(server, executor, starting):
        sleep(wait)
        if wanted is None:
            now = read_wanted(executor, path)
        else:
            now = _raise(executor, path, wanted, wanted + len(group))
            wanted += len(group)
        if now is None:
            break
        staying = tuple(agent for agent in group if agent.name not in now.leaving)
        started += executor.apply(replace(plan, agents=staying), keys)
    if started and read_wanted(executor, path) is None:  # taken down during the start
        executor.stop([agent.name for agent in started])
        return ()
    return started


def _group_starts(
    server: Server, executor: Executor, starting: Sequence[AgentPlan]
) -> list[tuple[float, Sequence[AgentPlan]]]:
    """Return groups of agents that start together, with the seconds to wait before each."""
    if server.extended:
        return [(0.0, starting)]
    waits = iter(build_ramp(len(starting), random.Random()))
    groups = split_by_pod(starting, executor.agents_per_pod)
    return [(sum(islice(waits, len(group))), group) for group in groups]


def _raise(executor: Executor, path: str, number: int, higher: int) -> Wanted | None:
    """Raise the wanted number of agents and return it; None if it had changed."""

    def change(old: Wanted | None) -> Wanted | None:
        return replace(old, number=higher) if old and old.number == number else None

    executor.wanted.change(path, change)
    now = read_wanted(executor, path)
    return now if now and now.number == higher else None
