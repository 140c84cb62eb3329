"""What W&B's own server does not have; a plain backend leaves this file out."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, ObjectType

from deployer.backend.accounts import create_agent_key
from deployer.backend.agents import Agent
from deployer.backend.handlers.sweep import named_sweep
from deployer.backend.handlers.wire import Info, transaction
from deployer.backend.projects import get_project
from deployer.backend.refusal import Refusal
from deployer.backend.runs import Run
from deployer.backend.store import select_one

mutation = MutationType()
run = ObjectType("Run")


@mutation.field("deployerCreateAgentKey")
def resolve_create_agent_key(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Make a key that is good for one agent's work on one sweep and for nothing else."""
    request = info.context
    if request.caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot make keys")
    entity, _slash, rest = input["sweep_path"].partition("/")
    project_name, _slash, sweep_name = rest.partition("/")
    with transaction(info) as db:
        project = get_project(db, request.caller, entity, project_name)
        sweep = named_sweep(db, project, sweep_name)
        now = request.backend.now()
        return {"key": create_agent_key(db, request.caller, sweep.id, input["agent_name"], now)}


@run.field("deployerAgent")
def resolve_agent(row: Run, info: Info) -> Agent | None:
    with transaction(info) as db:
        return select_one(db, Agent, "agents WHERE id = ?", row.agent_id)
