"""The plan: what `apply` will do, and when agents end; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice

from deployer.agent.settings import COUNT_VARIABLE, DEADLINE_VARIABLE
from deployer.model import Agent, AgentPlan, Plan

JOB_PATIENCE_SECONDS = 120.0  # after the supervisor's grace period


def build_plan(
    sweep_path: str,
    base_url: str,
    folder: str,
    replicas: int,
    existing: Sequence[str] = (),
    leaving: Sequence[str] = (),
    gpus: Sequence[str] = (),
    environment: Sequence[tuple[str, str]] = (),
    avoided_nodes: Sequence[str] = (),
    own_keys: bool = True,
    deadline: float | None = None,
    preferred: Sequence[str] = (),
) -> Plan:
    """Plan `replicas` agents: those in `existing` stay, new ones are `<sweep id>-a<number>`.

    The `preferred` names come first, then the smallest free numbers, so that an agent that replaces
    an ended one has its name and folder. Names in `leaving` stay unused. GPUs are assigned round
    robin by number; with more agents than GPUs, several share one.
    """
    sweep_id = sweep_path.rpartition("/")[2]
    taken = {*existing, *leaving}
    numbered = (f"{sweep_id}-a{n}" for n in count(1))
    free = (name for name in dict.fromkeys(preferred) if name not in taken)
    unused = (name for name in numbered if name not in {*taken, *preferred})
    missing = max(0, replicas - len(existing))
    names = [*existing, *islice(chain(free, unused), missing)]
    dealt = {name: _deal(name, gpus) for name in names}
    on_gpu = Counter(dealt.values())
    agents = (AgentPlan(n, own, tuple(environment), on_gpu[own]) for n, own in dealt.items())
    ordered = tuple(sorted(agents, key=lambda a: _number(a.name)))
    return Plan(
        sweep_path,
        base_url,
        folder,
        ordered,
        tuple(avoided_nodes),
        own_keys,
        deadline,
        asked=len(ordered),
    )


def _deal(name: str, gpus: Sequence[str]) -> tuple[str, ...]:
    return (gpus[(_number(name) - 1) % len(gpus)],) if gpus else ()


def _number(name: str) -> int:
    """Return the number at the end of an agent's name; 0 for a name that is not ours."""
    end = name.rpartition("-a")[2]
    return int(end) if end.isdigit() else 0


def split_by_pod(agents: Sequence[AgentPlan], size: int) -> Iterator[Sequence[AgentPlan]]:
    """Yield the agents of each pod, at most `size`; a single-run agent has its own pod."""
    alone = any((COUNT_VARIABLE, "1") in agent.environment for agent in agents)
    step = 1 if alone else size
    return (agents[start : start + step] for start in range(0, len(agents), step))


# When a sweep's agents end, watched or not (`--max-time`); pure. Each supervisor knows the deadline
# and interrupts its run, which is assigned again to later agents. Agents that do not end are killed
# by their Job's own deadline, a little later.


def find_end(max_seconds: float | None, now: float) -> float | None:
    """Return when agents that start now end, in seconds since the epoch; None for never."""
    return None if max_seconds is None else now + max_seconds


def count_job_seconds(deadline: float | None, now: float) -> float | None:
    """Return a Job's time limit from now, a little more than its agent's; None for none."""
    return None if deadline is None else deadline - now + JOB_PATIENCE_SECONDS


def find_deadline(agents: Sequence[Agent]) -> float | None:
    """Return when the last of a sweep's agents ends, in seconds since the epoch.

    None if a living agent has no deadline. Without living agents, the youngest one's applies;
    `agents` are oldest first.
    """
    asked = [agent for agent in agents if agent.alive] or agents[-1:]
    told = [agent.environment.get(DEADLINE_VARIABLE) for agent in asked]
    return max((float(one) for one in told if one), default=None) if all(told) else None
