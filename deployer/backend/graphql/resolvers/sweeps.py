"""Sweeps, their agents, and reports of the agents' supervisors."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from deployer.backend.db.accounts import (
    Caller,
    ProjectRow,
    User,
    check_newest,
    ensure_project,
    get_project,
    owns_project,
)
from deployer.backend.db.rows import Connection, find, get, select
from deployer.backend.db.runs import AgentRow, RunRow, create_agent, get_run, list_agents
from deployer.backend.db.sweeps import DELETED, STATES, SweepRow, create_sweep, find_sweep
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import (
    ALL,
    DEFAULT_PAGE,
    Info,
    Runs,
    decode_id,
    encode_id,
    fields_of_runs,
    page_of,
)
from deployer.backend.request import Refusal, not_found, parse_object
from deployer.backend.scheduling.context import Request
from deployer.backend.scheduling.dispatch import heartbeat, succeed_predecessors
from deployer.backend.scheduling.numbering import best_metric
from deployer.backend.scheduling.run_endings import note_exit, note_leave
from deployer.backend.scheduling.sweep_control import (
    Unread,
    adopt_prior_runs,
    change_sweep,
    enqueue_run,
    is_read,
    list_warnings,
    read_config,
)

# The history specs of an agent's first request, which lists all runs of its sweep but reads none.
# A local controller reads all of them, and asks for the history of its metric.
NO_HISTORY = ["{}"]
resolvers = Resolvers(
    {
        "Sweep.displayName": lambda _, sweep: sweep.title,
        "Sweep.heartbeatAt": lambda _, sweep: sweep.updated_at,
        "Sweep.earlyStopJobRunning": lambda _, sweep: "early_terminate" in sweep.settings,
        "Sweep.runCountExpected": lambda _, sweep: sweep.expected,
        "Sweep.runCount": lambda db, sweep: Runs(db, sweep.project_id, None, sweep).count(),
        "Sweep.project": lambda db, sweep: get(db, ProjectRow, sweep.project_id),
        "Sweep.user": lambda db, sweep: find(db, User, id=sweep.user_id),
        "Agent.totalRuns": lambda db, agent: len(_runs(db, agent)),
    }
)


@resolvers.field("Mutation.upsertSweep")
def resolve_upsert_sweep(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    if request.caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot change sweeps")
    db = request.db
    row = _change(info, db, input) if input.get("id") else _create(info, db, input)
    own = _read(request, input["config"]) if input.get("config") else list_warnings(row.settings)
    warnings = own + _with_prior_runs(db, row, input)
    return {"sweep": row, "config_validation_warnings": warnings}


def _with_prior_runs(db: Connection, row: SweepRow, input: dict[str, Any]) -> list[str]:
    """Add the runs of `--prior_run`; return warnings for those of another sweep."""
    if not input.get("prior_runs_filters"):
        return []
    runs = Runs(db, row.project_id, input["prior_runs_filters"]).read()
    adopt_prior_runs(db, row, runs)
    strangers = [run.name for run in runs if run.sweep_id not in (None, row.id)]
    return [f"run {name} belongs to another sweep and cannot be moved" for name in strangers]


@resolvers.field("Mutation.enqueueSweepRun")
def resolve_enqueue(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Enqueue a run with a configuration from an external scheduler or a user."""
    backend = info.context.backend
    if info.context.caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot change sweeps")
    db = info.context.db
    row = _own_sweep(info, db, input["id"])
    name = input.get("display_name")
    run = enqueue_run(backend, db, row, input["config"], name)
    return {"id": run.name, "run_queue_item_id": encode_id("RunQueueItem", run.id)}


def _create(info: Info, db: Connection, input: dict[str, Any]) -> SweepRow:
    request = info.context
    config = input.get("config")
    if not config:
        raise Refusal(400, "a sweep needs a configuration")
    _read(request, config)
    now = request.backend.now()
    project = ensure_project(
        db, request.caller, input.get("entity_name"), input.get("project_name"), now
    )
    columns = {
        name: input.get(name) for name in ("description", "display_name", "controller", "scheduler")
    }
    mutation_id = input.get("client_mutation_id")
    return create_sweep(
        db, request.caller, project, config, now, mutation_id=mutation_id, **columns
    )


def _read(request: Request, config: str) -> list[str]:
    if request.in_writer and not is_read(config):
        raise Unread(config)
    return read_config(config)


def _change(info: Info, db: Connection, input: dict[str, Any]) -> SweepRow:
    row = _own_sweep(info, db, input["id"])
    changes = {
        name: input[name]
        for name in ("config", "description", "display_name", "controller", "scheduler")
        if input.get(name) is not None
    }
    if "config" in changes:
        _read(info.context, changes["config"])
    if input.get("state"):
        state = input["state"]
        if state.upper() not in STATES:
            raise Refusal(400, f"sweep state {state!r} is not one of {', '.join(STATES)}")
        changes["state"] = state.upper()
    return change_sweep(info.context.backend, db, row, **changes)


def _own_sweep(info: Info, db: Connection, text: str) -> SweepRow:
    row = get(db, SweepRow, decode_id("Sweep", text))
    owned = owns_project(db, info.context.caller, row.project_id)
    if not owned or row.state == DELETED:
        raise not_found("sweep")
    return row


@resolvers.field("Mutation.createAgent")
def resolve_create_agent(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    db = request.db
    project = get_project(db, request.caller, input.get("entity_name"), input.get("project_name"))
    row = named_sweep(db, project, input["sweep"])
    if request.caller.sweep_id not in (None, row.id):
        raise Refusal(403, "this agent's key is for another sweep")
    check_newest(request.caller)
    now = request.backend.now()
    agent = create_agent(db, request.caller, row, input["host"], now)
    succeed_predecessors(request.backend, db, agent)
    return {"agent": agent}


def named_sweep(db: Connection, project: ProjectRow, name: str) -> SweepRow:
    """Return a project's sweep; refuse with 404 if not found."""
    row = find_sweep(db, project, name)
    if row is None:
        raise not_found(f"sweep {project.entity}/{project.name}/{name}")
    return row


@resolvers.field("Sweep.bestLoss")
def resolve_best_loss(row: SweepRow, info: Info) -> float | None:
    return best_metric(row, info.context.backend.metrics.read(info.context.db, row).values())


@resolvers.field("Sweep.runs")
def resolve_runs(
    row: SweepRow,
    info: Info,
    filters: str | None = None,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
) -> dict[str, Any]:
    if first is None:
        first = DEFAULT_PAGE if info.variable_values.coerced.get("specs") == NO_HISTORY else ALL
    return Runs(info.context.db, row.project_id, filters, row).page(order, after, first)


@resolvers.field("Sweep.priorRuns")
def resolve_prior_runs(
    row: SweepRow,
    info: Info,
    filters: str | None = None,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
) -> dict[str, Any]:
    db = info.context.db
    runs = Runs(db, row.project_id, filters, row).read()
    prior = [run for run in runs if run.created_at < row.created_at]
    fields = fields_of_runs(db, row.project_id)
    return page_of(prior, order, after, ALL if first is None else first, fields)


@resolvers.field("Sweep.agents")
def resolve_agents(
    row: SweepRow, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    return page_of(list_agents(info.context.db, row), "+id", after, ALL if first is None else first)


@resolvers.field("Sweep.agent")
def resolve_agent(row: SweepRow, info: Info, agent_name: str) -> AgentRow | None:
    db = info.context.db
    if found := find(db, AgentRow, "id DESC", sweep_id=row.id, name=agent_name):
        return found
    with contextlib.suppress(Refusal):
        found = get(db, AgentRow, decode_id("Agent", agent_name))
    return found if found and found.sweep_id == row.id else None


@resolvers.field("Mutation.agentHeartbeat")
def resolve_heartbeat(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    db = request.db
    row = get(db, AgentRow, decode_id("Agent", input["id"]))
    check_owner(db, request.caller, row)
    run_state = parse_object(input.get("run_state") or "{}", "the runState")
    alive = {name for name, living in run_state.items() if living}
    commands = heartbeat(request.backend, row.id, alive, request.waited_seconds)
    return {"agent": row, "commands": json.dumps(commands)}


def check_owner(db: Connection, caller: Caller, row: AgentRow) -> None:
    """Refuse another user's agent with 404, and an agent other than the key's with 403."""
    sweep = get(db, SweepRow, row.sweep_id)
    if not owns_project(db, caller, sweep.project_id):
        raise not_found("agent")
    if caller.sweep_id is not None and (caller.sweep_id, caller.agent_name) != (sweep.id, row.name):
        raise Refusal(403, f"this key is not agent {row.name}'s")
    # On a 404 the agent ends and takes no other run; on a 403 it would retry forever.
    check_newest(caller, 404)


@resolvers.field("Agent.state")
def resolve_state(row: AgentRow, info: Info) -> str:
    if row.ended_at is not None:
        return "FINISHED"
    backend = info.context.backend
    silence = backend.presence.silence_seconds("agent", row.id)
    return "RUNNING" if silence < backend.patience.silence_seconds else "CRASHED"


@resolvers.field("Agent.runs")
def resolve_agent_runs(
    row: AgentRow,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
    **_: Any,
) -> dict[str, Any]:
    db = info.context.db
    fields = fields_of_runs(db, get(db, SweepRow, row.sweep_id).project_id)
    return page_of(_runs(db, row), order, after, first, fields)


def _runs(db: Connection, row: AgentRow) -> list[RunRow]:
    return select(db, RunRow, "WHERE agent_id = ? AND sweep_id IS NOT NULL ORDER BY id", row.id)


@resolvers.field("Mutation.deployerReportExit")
def resolve_report_exit(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    sweep_id, agent_name = _agent_of(request.caller)
    db = request.db
    sweep = get(db, SweepRow, sweep_id)
    run = get_run(db, get(db, ProjectRow, sweep.project_id), input["run_name"])
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
    """Return the key's agent (sweep id, name); refuse a user's key and a superseded one."""
    if caller.sweep_id is None or caller.agent_name is None:
        raise Refusal(403, "only an agent's supervisor can report how the agent ended")
    check_newest(caller)
    return caller.sweep_id, caller.agent_name
