"""What the supervisors of agents tell us beyond W&B's requests, with their agents' own keys."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.accounts import Caller, check_newest
from deployer.backend.db.projects import Project
from deployer.backend.db.rows import get
from deployer.backend.db.runs import get_run
from deployer.backend.db.sweeps import Sweep
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.resolvers.wire import Info
from deployer.backend.refusal import Refusal, not_found
from deployer.backend.scheduling.process_ends import note_exit, note_leave

resolvers = Resolvers()


@resolvers.field("Mutation.deployerReportExit")
def resolve_report_exit(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    sweep_id, agent_name = _agent_of(request.caller)
    db = info.context.db
    sweep = get(db, Sweep, sweep_id)
    run = get_run(db, get(db, Project, sweep.project_id), input["run_name"])
    if run.sweep_id != sweep.id:
        raise not_found(f"run {run.name}")
    seen = (input["seconds_ago"], input.get("exitcode"), input.get("output"))
    note_exit(request.backend, db, run, agent_name, *seen)
    return {"success": True}


@resolvers.field("Mutation.deployerLeave")
def resolve_leave(_: Any, info: Info, **__: Any) -> dict[str, Any]:
    request = info.context
    _agent_of(request.caller)
    note_leave(request.backend, info.context.db, request.caller)
    return {"success": True}


def _agent_of(caller: Caller) -> tuple[int, str]:
    """Return the agent whose key it is; refuse a user's key, and that of an agent started again."""
    if caller.sweep_id is None or caller.agent_name is None:
        raise Refusal(403, "only the supervisor of an agent tells what has become of it")
    check_newest(caller)
    return caller.sweep_id, caller.agent_name
