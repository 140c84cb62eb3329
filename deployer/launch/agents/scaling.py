"""Fewer agents of a sweep: who leaves, and the end of all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from deployer.errors import AgentError, Refusals, collect_refusals
from deployer.executors.base import Executor
from deployer.launch.agents.one_run_per_job import is_probe, list_used_names
from deployer.model import Agent, Run, SweepPath
from deployer.text import format_count
from deployer.watch.agent_runs import join_runs


@dataclass(frozen=True)
class Ended:
    """The `names` of agents that were ended; `forgotten`: records of them were deleted too."""

    names: tuple[str, ...] = ()
    forgotten: bool = False

    def __add__(self, other: Ended) -> Ended:
        return Ended((*self.names, *other.names), self.forgotten or other.forgotten)

    def __bool__(self) -> bool:
        return bool(self.names) or self.forgotten


def scale_down(
    executor: Executor, path: SweepPath, replicas: int, runs: Sequence[Run] = ()
) -> tuple[str, ...]:
    """Drain agents until `replicas` stay, idle ones first; return the names of those that go.

    `runs` tell which agents are idle where the executor cannot. If at least as many stay, no
    watcher starts those again that have ended.
    """
    agents = join_runs(executor.list_agents(str(path)), runs)
    leaving = choose_leaving(agents, replicas)
    if sum(map(stays, agents)) >= replicas:
        dismiss_ended(executor, agents)
    if leaving:
        executor.drain(leaving)
    return leaving


def dismiss_ended(
    executor: Executor, agents: Sequence[Agent], planned: Collection[str] = ()
) -> None:
    """Have no watcher start the caller's agents again that have ended and are not planned."""
    kept = {*list_used_names(agents), *planned}
    ended = [a for a in agents if not (a.alive or a.dismissed or a.foreign or a.name in kept)]
    names = [agent.name for agent in ended]
    lost = [agent.name for agent in ended if agent.state == "lost"]
    if names:
        executor.dismiss(names)
    if lost:  # a node that returns, or a Job, could bring them back
        executor.stop(lost)


def dismiss_all(executor: Executor, path: SweepPath) -> None:
    """Let the caller's agents of a sweep that is over leave; no watcher starts one again."""
    agents = [agent for agent in executor.list_agents(str(path)) if not agent.foreign]
    dismiss_ended(executor, agents)
    if going := [agent.name for agent in agents if stays(agent) or is_probe(agent)]:
        executor.drain(going)


def choose_leaving(agents: Sequence[Agent], replicas: int) -> tuple[str, ...]:
    """Return who leaves until `replicas` stay: idle ones first, of these the youngest; pure.

    Another owner's agents count, and stay.
    """
    staying = [a for a in agents if stays(a)]
    own = [a for a in staying if not a.foreign]
    by_idleness = sorted(own, key=lambda a: (a.run_id is not None, -a.started_at))
    return tuple(a.name for a in by_idleness[: max(0, len(staying) - replicas)])


def end_agents(executor: Executor, sweep_path: str | None) -> tuple[str, ...]:
    """Interrupt the caller's agents of one sweep, or of all, and delete what was kept about them.

    Returns who was alive. Raises what was refused once the rest is done.
    """
    with collect_refusals() as refusals:
        return end_willing_agents(executor, sweep_path, refusals).names


def end_willing_agents(
    executor: Executor, sweep_path: str | None, refusals: Refusals, *, everyone: bool = False
) -> Ended:
    """Do what `end_agents` does, and note what is refused instead of raising it.

    Other owners' agents end only if `everyone` is meant. Watchers see first that the agents are
    dismissed, and restart none. Raises what forbids to list them at all.
    """
    agents = [a for a in executor.list_agents(sweep_path) if everyone or not a.foreign]
    executor.dismiss([agent.name for agent in agents])
    # Lost ones too: their runs may still be going.
    names = [agent.name for agent in agents if agent.state != "ended"]
    stopped, forgotten = tuple[str, ...](), False
    with refusals.noted():
        stopped = tuple(executor.stop(names)) if names else ()
    with refusals.noted():
        forgotten = executor.forget(sweep_path, everyone=everyone)
    return Ended(stopped, forgotten or bool(agents))


def check_reached(agents: Sequence[Agent], path: SweepPath, replicas: int) -> None:
    """Refuse to go below the number of other owners' agents; raises AgentError."""
    others = [agent for agent in agents if agent.foreign and stays(agent)]
    if len(others) > replicas:
        owners = ", ".join(sorted({agent.owner for agent in others}))
        stay = f"{format_count(len(others), 'agent')} of {owners}"
        raise AgentError(f"{path}: {stay} cannot be drained by you", f"ask {owners} to scale down")


def find_named(executor: Executor, path: SweepPath, names: Sequence[str]) -> list[Agent]:
    """Return the sweep's agents with these names, of every owner; raises AgentError."""
    known = {a.name: a for a in executor.list_agents(str(path))}
    for name in names:
        if name not in known:
            hint = f"its agents: {', '.join(known)}" if known else "deployer agents list --all"
            raise AgentError(f"{path} has no agent '{name}'", hint)
    return [known[name] for name in names]


def check_drainable(agents: Sequence[Agent]) -> None:
    """Refuse to drain another owner's agents; raises AgentError."""
    for agent in agents:
        if agent.foreign:
            said = f"agent '{agent.name}' belongs to {agent.owner}"
            raise AgentError(said, f"ask {agent.owner} to drain it")


def stays(agent: Agent) -> bool:
    """Tell whether an agent works and will take more runs than the one that it may have."""
    leaving = agent.dismissed or agent.state in ("draining", "stopping")
    return agent.alive and not leaving and not is_probe(agent)
