"""Agents: their fields, and the heartbeat that hands them work."""

from __future__ import annotations

import json
from typing import Any

from deployer.backend.db.accounts import Caller, check_newest
from deployer.backend.db.agents import Agent
from deployer.backend.db.projects import owns_project
from deployer.backend.db.rows import Connection, get, select
from deployer.backend.db.runs import Run
from deployer.backend.db.sweeps import Sweep
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import fields_of_runs, page_of
from deployer.backend.graphql.resolvers.wire import (
    Info,
    decode_id,
)
from deployer.backend.parsing import parse_object
from deployer.backend.refusal import Refusal, not_found
from deployer.backend.scheduling.dispatch import heartbeat

resolvers = Resolvers(
    {
        "Agent.totalRuns": lambda db, agent: len(_runs(db, agent)),
    }
)


@resolvers.field("Mutation.agentHeartbeat")
def resolve_heartbeat(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    db = info.context.db
    row = get(db, Agent, decode_id("Agent", input["id"]))
    check_owner(db, request.caller, row)
    run_state = parse_object(input.get("run_state") or "{}", "the runState")
    alive = {name for name, living in run_state.items() if living}
    commands = heartbeat(request.backend, row.id, alive, request.waited_seconds)
    return {"agent": row, "commands": json.dumps(commands)}


def check_owner(db: Connection, caller: Caller, row: Agent) -> None:
    """Refuse another user's agent with 404, and with 403 an agent other than the key's own."""
    sweep = get(db, Sweep, row.sweep_id)
    if not owns_project(db, caller, sweep.project_id):
        raise not_found("agent")
    if caller.sweep_id is not None and (caller.sweep_id, caller.agent_name) != (sweep.id, row.name):
        raise Refusal(403, f"this key is not agent {row.name}'s")
    # On a 404 the agent takes no other run and ends; a 403 would have it ask again for ever.
    check_newest(caller, 404)


@resolvers.field("Agent.state")
def resolve_state(row: Agent, info: Info) -> str:
    if row.ended_at is not None:
        return "FINISHED"
    backend = info.context.backend
    silence = backend.presence.silence_seconds("agent", row.id)
    return "RUNNING" if silence < backend.patience.silence_seconds else "CRASHED"


@resolvers.field("Agent.runs")
def resolve_runs(
    row: Agent,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
    **_: Any,
) -> dict[str, Any]:
    db = info.context.db
    fields = fields_of_runs(db, get(db, Sweep, row.sweep_id).project_id)
    return page_of(_runs(db, row), order, after, first, fields)


def _runs(db: Connection, row: Agent) -> list[Run]:
    return select(db, Run, "WHERE agent_id = ? AND sweep_id IS NOT NULL ORDER BY id", row.id)
