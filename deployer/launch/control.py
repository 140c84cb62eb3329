"""Change a sweep's state: pause, resume, stop, cancel or delete it.

Changes that affect other people happen only if the caller agrees.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from deployer.config.project import LOCAL
from deployer.errors import AgentError, CloudError, DeployerError, WandbError
from deployer.executors.registry import find_executor, list_names
from deployer.launch.provision import RecordedTarget, describe_owners
from deployer.launch.request import Session
from deployer.model import ENDED_SWEEP_STATES, SweepPath
from deployer.outputs.stores import delete_here, measure_here
from deployer.sweeps.records import Records
from deployer.text import format_bytes, format_count
from deployer.wandb_api.operations import (
    delete_sweep,
    get_creator,
    get_snapshot,
    get_sweep,
    set_sweep_state,
)
from deployer.wandb_api.server import Server
from deployer.watch.status import count_other_agents

LOG = logging.getLogger(__name__)

# Arguments: sentences about other people's part in the sweep, and the planned action.
Agree = Callable[[Sequence[str], str], bool]

# The states from which a sweep may change its state; an ended sweep cannot.
STEERABLE = {
    "PAUSED": ("RUNNING", "PAUSED", "PENDING"),
    "RUNNING": ("RUNNING", "PAUSED", "PENDING"),
    "FINISHED": ("RUNNING", "PAUSED", "PENDING", "FINISHED"),
    "CANCELED": ("RUNNING", "PAUSED", "PENDING", "CANCELED"),
}


def steer(session: Session, state: str, agree: Agree) -> bool:
    """Set a sweep's state unless it has it; return False if the caller does not agree.

    `agree` is called if other owners' agents work on the sweep, or if it ends and was made
    elsewhere. Raises WandbError, also if an ended sweep is to continue.
    """
    server, path = session.server, session.path
    info = get_sweep(server.client, path)
    if info.state not in STEERABLE[state]:
        raise WandbError(
            f"{path} is {info.state} and cannot become {state}",
            "deployer up FILE --new creates another sweep" if info.ended else "",
        )
    if info.state != state:
        concerns = _list_concerns(session)
        if state in ENDED_SWEEP_STATES:
            concerns += _list_makers(server, path)
        if concerns and not agree(concerns, f"make it {state}"):
            LOG.info(f"{path} stays {info.state}")
            return False
        set_sweep_state(server.client, info, state)
    LOG.info(f"{path} is {state}")
    if state == "PAUSED":
        _say_held(session)
    return True


def delete(session: Session, agree: Agree) -> bool:
    """Delete a sweep and its local outputs; return False if the caller does not agree.

    `agree` is always called. Raises AgentError while agents may be running, WandbError.
    """
    server, path = session.server, session.path
    info = get_sweep(server.client, path)
    living = [agent for agent in session.executor.list_agents(str(path)) if agent.alive]
    if living:
        names = (f"{a.name} of {a.owner}" if a.foreign else a.name for a in living)
        there = f"{path}: agents are still running: {', '.join(names)}"
        foreign = any(agent.foreign for agent in living)
        raise AgentError(there, f"deployer {'agents list' if foreign else 'down'} {path}")
    concerns = _list_concerns(session)
    for sentence in concerns:
        LOG.info(sentence)
    if concerns and not info.ended:
        said = f"{path}: agents of other users may be working on it"
        raise AgentError(said, f"deployer sweep stop {path}")
    outputs = measure_here(path.sweep_id)
    gone = f", their local outputs are deleted: {format_bytes(outputs)}" if outputs else ""
    made = describe_maker(server, path)
    whose = f", {made}," if made else ""
    kept = f"its {format_count(info.run_count, 'run')} stay{gone}"
    concerns += _list_makers(server, path)
    if not agree(concerns, f"sweep {path}{whose} permanently ({kept})"):
        LOG.info("nothing was deleted")
        return False
    delete_sweep(server.client, path)
    delete_here(path.sweep_id)
    Records.load().forget(lambda one: one.sweep_path == str(path) and one.is_on(server))
    LOG.info(f"{path} is deleted")
    return True


def describe_maker(server: Server, path: SweepPath) -> str:
    creator = get_creator(server.client, path)
    by = f" by {creator}" if creator else ""
    where = "" if _is_from_here(server, path) else " elsewhere"
    return f"made{by}{where}" if by or where else ""


def _list_makers(server: Server, path: SweepPath) -> list[str]:
    if _is_from_here(server, path):
        return []
    return [f"{path} was {describe_maker(server, path)}"]


def _is_from_here(server: Server, path: SweepPath) -> bool:
    return any(one.is_on(server) for one in Records.load().of(str(path)))


def _say_held(session: Session) -> None:
    """Log which agents a pause leaves running, and the command that ends them."""
    path = session.path
    if agents := sum(agent.alive for agent in session.executor.list_agents(str(path))):
        said = "ends its run, then waits and holds its GPU" if agents == 1 else ""
        said = said or "end their run, then wait and hold their GPUs"
        LOG.info(f"{format_count(agents, 'agent')} {said}. Free them: deployer agents down {path}")


def _list_concerns(session: Session) -> list[str]:
    """Return a sentence for each other owner with agents of a sweep; empty if there are none.

    The server lists all agents; the executors used from here know their owners. An unreachable
    executor is also reported.
    """
    path, concerns, known = session.sweep_path, list[str](), set[str]()
    for on, context, namespace in _list_places(session):
        try:
            config = session.project
            there = config.with_cluster(context, namespace) if namespace else config
            executor = find_executor(there, on)
            known.update(agent.name for agent in executor.list_agents(path))
            found = [one for one in executor.list_others(path) if one.agents]
        except DeployerError as error:
            if not (isinstance(error, CloudError) and error.reason == "NOT_FOUND"):
                said = f"could not check whether agents of other users work on it: {error.message}"
                concerns.append(said)
            continue  # a cluster that was deleted has no agents
        concerns += describe_owners(found, time.time(), executor.on)
    beating = get_snapshot(session.server.client, session.path).agents
    if count := count_other_agents(beating, known, time.time()):
        concerns.append(f"{format_count(count, 'agent')} started elsewhere working on it")
    return concerns


def _list_places(session: Session) -> list[RecordedTarget]:
    inside = session.server.inside
    places = {record.place for record in Records.load().of(session.sweep_path)}
    places |= {(on, "", "") for on in (session.project.on, LOCAL, inside.on if inside else "")}
    return sorted(place for place in places if place[0] in list_names())
