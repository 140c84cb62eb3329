"""Our extensions of W&B's schema; a plain backend does not use this file."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.accounts import Caller, adopt_own_key, create_agent_key, get_project
from deployer.backend.db.attempts import AttemptRow, list_attempts, read_run_table
from deployer.backend.db.rows import Connection, find
from deployer.backend.db.runs import AgentRow, RunRow
from deployer.backend.db.sweeps import SweepRow, update_sweep
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import Info, encode_birth, parse_birth
from deployer.backend.graphql.resolvers.sweeps import named_sweep
from deployer.backend.request import Refusal
from deployer.backend.scheduling.run_endings import requeue_failed
from deployer.backend.scheduling.sweep_control import delete_sweep

LARGEST_TABLE = 2500  # runs in one answer, which blocks other requests

resolvers = Resolvers(
    {
        "Sweep.deployerStopReason": lambda _, sweep: sweep.stop_reason,
        "Run.deployerApart": lambda _, run: run.apart_names,
        "Run.deployerAgent": lambda db, run: _agent_of(db, run),
        "Run.deployerAttempts": list_attempts,
        "DeployerAttempt.exitcode": lambda _, attempt: attempt.known_exit_code,
        "DeployerAttempt.agentName": lambda db, attempt: (
            (agent := _agent_of(db, attempt)) and agent.name
        ),
    }
)


@resolvers.field("Mutation.deployerCreateAgentKey")
def resolve_create_agent_key(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Create a key that is valid only for one agent's work on one sweep.

    A supervisor may register a newer key for its own agent, since a successor may start with the
    given key while the supervisor is unreachable.
    """
    request = info.context
    caller, key, name = request.caller, input.get("key"), input["agent_name"]
    db = request.db
    row = _sweep_at(info, db, input["sweep_path"])
    now = request.backend.now()
    if key is None and caller.sweep_id is None:
        return {"key": create_agent_key(db, caller, row.id, name, now)}
    if key is None or (caller.sweep_id, caller.agent_name) != (row.id, name):
        raise Refusal(403, "an agent's key can create a newer key only for its own agent")
    _adopt(db, caller, key, now, input.get("node") or "")
    return {"key": key}


def _adopt(db: Connection, caller: Caller, key: str, now: float, node: str) -> None:
    try:
        adopt_own_key(db, caller, key, now, node)
    except ValueError as error:
        raise Refusal(400, str(error)) from error


@resolvers.field("Mutation.deployerRequeue")
def resolve_requeue(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Requeue failed runs; idempotent."""
    if info.context.caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot change sweeps")
    db = info.context.db
    row = _sweep_at(info, db, input["sweep_path"])
    retries = input.get("retries")
    if retries is not None:
        row = update_sweep(db, row, info.context.backend.now(), healed_retries=max(0, retries))
    return {"requeued": requeue_failed(info.context.backend, db, row)}


@resolvers.field("Mutation.deployerDeleteSweep")
def resolve_delete_sweep(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    if info.context.caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot change sweeps")
    db = info.context.db
    delete_sweep(info.context.backend, db, _sweep_at(info, db, input["sweep_path"]))
    return {"success": True}


def _sweep_at(info: Info, db: Connection, path: str) -> SweepRow:
    if path.count("/") != 2:
        raise Refusal(400, f"{path!r} is not ENTITY/PROJECT/SWEEP_ID")
    entity, project_name, sweep_name = path.split("/")
    project = get_project(db, info.context.caller, entity, project_name)
    return named_sweep(db, project, sweep_name)


def _agent_of(db: Connection, row: RunRow | AttemptRow) -> AgentRow | None:
    return find(db, AgentRow, id=row.agent_id)


@resolvers.field("Sweep.deployerRuns")
def resolve_runs(
    row: SweepRow, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    """Return many runs at once as JSON; separate fields would take ten times as long."""
    size = LARGEST_TABLE if first is None else min(max(first, 1), LARGEST_TABLE)
    runs, end = read_run_table(info.context.db, row, parse_birth(after) if after else None, size)
    return {"runs": runs, "end_cursor": end and encode_birth(*end)}
