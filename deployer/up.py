"""The steps of `up` as library calls: read, make, plan, apply. They raise and print nothing."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from deployer.errors import AgentError
from deployer.place import Agent, Place
from deployer.plan import Plan, build_plan
from deployer.server import Server
from deployer.wandb_api import SweepPath, create_agent_keys


def open_place(on: str) -> Place:
    """Return the place that `--on` names."""
    from deployer.local import LocalPlace

    assert on == "local"  # config.py has checked the word
    return LocalPlace()


def plan_agents(server: Server, place: Place, path: SweepPath, replicas: int, folder: Path) -> Plan:
    """Work out which agents make `replicas` in all: those that stay, and new ones."""
    alive = [a for a in place.list_agents(str(path)) if a.alive]
    staying = [a for a in alive if _stays(a)]
    return build_plan(
        sweep_path=str(path),
        base_url=server.url,
        folder=str(folder),
        replicas=max(replicas, len(staying)),
        existing=[a.name for a in staying],
        leaving=[a.name for a in alive if not _stays(a)],
        gpus=place.list_gpus(),
    )


def apply_plan(server: Server, place: Place, plan: Plan) -> Sequence[Agent]:
    """Start the plan's agents that are not alive yet, each with its own key if it can have one."""
    alive = {a.name for a in place.list_agents(plan.sweep_path) if a.alive}
    missing = tuple(agent.name for agent in plan.agents if agent.name not in alive)
    path = SweepPath(*plan.sweep_path.split("/"))
    keys = create_agent_keys(server.client, path, missing, uuid.uuid4().hex) if missing else {}
    return place.apply(plan, keys)


def scale_down(place: Place, path: SweepPath, replicas: int) -> tuple[str, ...]:
    """Drain agents until `replicas` stay, idle ones first; return the names of those that go."""
    staying = [a for a in place.list_agents(str(path)) if _stays(a)]
    by_idleness = sorted(staying, key=lambda a: (a.run_id is not None, -a.started_at))
    leaving = tuple(a.name for a in by_idleness[: max(0, len(staying) - replicas)])
    if leaving:
        place.drain(leaving)
    return leaving


def end_agents(place: Place, sweep_path: str | None) -> tuple[str, ...]:
    """Interrupt one sweep's agents, or all, and delete what was kept about them."""
    # Lost ones too: their runs may still be going.
    names = [a.name for a in place.list_agents(sweep_path) if a.state != "ended"]
    stopped = tuple(place.stop(names)) if names else ()
    place.forget(sweep_path)
    return stopped


def check_names(place: Place, path: SweepPath, names: Sequence[str]) -> list[str]:
    """Return the names if all are agents of the sweep; raises AgentError."""
    known = [a.name for a in place.list_agents(str(path))]
    for name in names:
        if name not in known:
            raise AgentError(
                f"{path} has no agent '{name}'", f"its agents: {', '.join(known) or 'none'}"
            )
    return list(names)


def _stays(agent: Agent) -> bool:
    return agent.alive and agent.state not in ("draining", "stopping")
