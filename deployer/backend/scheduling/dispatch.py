"""The reply to an agent's heartbeat: which run to start, which ones to stop.

Only this module assigns runs. An agent gets one run at a time. A run that was sent but never
reported as alive is sent again, so that a lost reply loses nothing.
"""

from __future__ import annotations

from typing import Any

from deployer.backend.db.attempts import (
    assign_run,
    has_process_ended,
    last_attempt,
    reassign_run,
    repeat_attempt,
)
from deployer.backend.db.rows import Connection, change, get, select, update
from deployer.backend.db.runs import IS_ACTIVE, AgentRow, RunRow
from deployer.backend.db.sweeps import DELETED, SweepRow, update_sweep
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.lifecycle import (
    LOST_REPLY_SECONDS,
    MAX_DELIVERIES,
    OWN_FAILURES,
    PATIENT_KILLS,
    Outcome,
    judge_disappearance,
)
from deployer.backend.scheduling.numbering import free_ordinal, note_taken
from deployer.backend.scheduling.run_endings import (
    abandon_run,
    end_run,
    finish_if_complete,
    marks_of,
)
from deployer.backend.scheduling.suggestions import NotReady

AgentCommand = dict[str, Any]
# How long a request waits for a model; then the agent asks again, 5 s later.
MODEL_SECONDS = 20.0
EXIT: AgentCommand = {"type": "exit"}
# The order of queued runs by the ends of their attempts: interrupted ones first, failed or
# repeatedly killed ones last.
FAILED_ONCE = (
    "EXISTS (SELECT 1 FROM attempts WHERE run_id = runs.id AND number = runs.attempt"
    f" AND cause IN {OWN_FAILURES})"
)
KILLED_AGAIN = (
    "(SELECT COUNT(*) FROM attempts WHERE run_id = runs.id AND cause IN ('signal', 'OOM'))"
    f" >= {PATIENT_KILLS}"
)
LAST = f"({FAILED_ONCE} OR {KILLED_AGAIN})"
FIRST = f"NOT {LAST}"


def heartbeat(
    backend: Backend, agent_id: int, alive: set[str], waited_seconds: float = 0.0
) -> list[AgentCommand]:
    """Record an agent's live runs (by run name) and return its commands.

    Raise NotReady if it must wait for a model; the caller repeats it with `waited_seconds`.
    """
    with backend.store.transaction() as db:
        agent = get(db, AgentRow, agent_id)
        update(db, agent, heartbeat_at=backend.now(), ended_at=None)
        backend.presence.seen("agent", agent.id)
        now = backend.now()
        for run in _owned(db, agent):
            if run.name in alive:
                update(db, run, reported=1, vanished_at=None)
                backend.presence.seen("run", run.id)
            elif run.reported or run.started_at:
                _note_vanished(backend, db, run, now)
        commands = _standing_commands(backend, db, agent, alive)
        if commands is not None:
            return commands
        return _next_run(backend, db, agent, waited_seconds)


def _owned(db: Connection, agent: AgentRow) -> list[RunRow]:
    """Return an agent's active runs, without separate ones, whose names it does not know."""
    tail = f"WHERE agent_id = ? AND sweep_id IS NOT NULL AND {IS_ACTIVE} ORDER BY id"
    return select(db, RunRow, tail, agent.id)


def _note_vanished(backend: Backend, db: Connection, run: RunRow, now: float) -> None:
    if run.vanished_at is None:
        run = change(db, run, vanished_at=now)
        backend.presence.seen("run", run.id)
    waited = backend.presence.silence_seconds("run", run.id)
    if not run.started_at or waited >= backend.patience.exit_record_seconds:
        abandon_run(backend, db, run)


def _standing_commands(
    backend: Backend, db: Connection, agent: AgentRow, alive: set[str]
) -> list[AgentCommand] | None:
    sweep = get(db, SweepRow, agent.sweep_id)
    if sweep.state in ("CANCELED", DELETED):
        # Let the agent's runs stop on request first, then let the agent exit.
        owned = _owned(db, agent)
        if any(run.name in alive and not _is_stubborn(backend, run) for run in owned):
            return []
        for run in owned:
            end_run(backend, db, run, Outcome("killed", "stopped"))
        return _leave(backend, db, agent)
    if alive:
        return [_stop(run) for run in _owned(db, agent) if _is_stubborn(backend, run)]
    if sweep.state == "PAUSED":
        return []
    if sweep.ended:
        return _leave(backend, db, agent)
    return None


def _stop(run: RunRow) -> AgentCommand:
    return {"type": "stop", "run_id": run.name}


def _is_stubborn(backend: Backend, run: RunRow) -> bool:
    asked = run.stop_requested_at
    return asked is not None and backend.now() - asked >= backend.patience.graceful_stop_seconds


def _leave(backend: Backend, db: Connection, agent: AgentRow) -> list[AgentCommand]:
    update(db, agent, ended_at=backend.now())
    return [EXIT]


def _next_run(
    backend: Backend, db: Connection, agent: AgentRow, waited_seconds: float
) -> list[AgentCommand]:
    """Assign a run: an undelivered one first, then a requeued, a new, a failed one."""
    sweep = get(db, SweepRow, agent.sweep_id)
    ordinal = None if sweep.local_scheduler else free_ordinal(db, sweep)
    run = _undelivered(backend, db, agent) or _returned(backend, db, agent, FIRST)
    if run is None and ordinal is None:
        run = _returned(backend, db, agent, LAST)
    if run:
        return _deliver(backend, db, sweep, run)
    if ordinal is None:
        return _wait_or_leave(backend, db, sweep, agent)
    try:
        args = backend.suggestions.find(db, sweep, ordinal, again=waited_seconds > 0)
    except NotReady:
        if waited_seconds < MODEL_SECONDS:
            raise
        return []
    if args is None:
        sweep = update_sweep(db, sweep, backend.now(), expected=ordinal)
        return _wait_or_leave(backend, db, sweep, agent)
    run = assign_run(db, sweep, agent, ordinal, args, backend.now())
    note_taken(db, sweep, ordinal)
    return _deliver(backend, db, sweep, run)


def _undelivered(backend: Backend, db: Connection, agent: AgentRow) -> RunRow | None:
    for run in _owned(db, agent):
        if run.reported or run.started_at is not None:
            continue
        quick = backend.presence.silence_seconds("run", run.id) < LOST_REPLY_SECONDS
        quick = quick and not has_process_ended(db, run)
        if run.deliveries >= MAX_DELIVERIES or (run.deliveries and not quick):
            end_run(backend, db, run, judge_disappearance(marks_of(run), agent_is_there=True))
            continue
        return repeat_attempt(db, run, "lost reply", backend.now()) if run.deliveries else run
    return None


def _returned(backend: Backend, db: Connection, agent: AgentRow, turn: str) -> RunRow | None:
    """Assign the queued run with the lowest ordinal to this agent; None if there is none."""
    tail = f"WHERE sweep_id = ? AND queued = 1 AND {turn} ORDER BY ordinal"
    for run in select(db, RunRow, tail, agent.sweep_id):
        silence = backend.presence.silence_seconds("run", run.id)
        rested = silence >= backend.patience.unstarted_wait_seconds
        if rested or last_attempt(db, run).cause not in ("never started", "no server"):
            return reassign_run(db, run, agent, backend.now())
    return None


def succeed_predecessors(backend: Backend, db: Connection, agent: AgentRow) -> None:
    """End earlier agents with the same name, which are certainly gone.

    A supervisor ends its predecessor's leftovers before it starts its own agent.
    """
    if not agent.supervised:
        return
    earlier = "WHERE sweep_id = ? AND name = ? AND key_id IS NOT NULL AND id < ?"
    for gone in select(db, AgentRow, earlier, agent.sweep_id, agent.name, agent.id):
        if gone.ended_at is None:
            update(db, gone, ended_at=backend.now())
        for run in _owned(db, gone):
            end_run(backend, db, run, judge_disappearance(marks_of(run), agent_is_there=False))


def _deliver(backend: Backend, db: Connection, sweep: SweepRow, run: RunRow) -> list[AgentCommand]:
    update(db, run, deliveries=run.deliveries + 1)
    backend.presence.seen("run", run.id)
    if sweep.state == "PENDING":
        update_sweep(db, sweep, backend.now(), state="RUNNING")
    backend.suggestions.prepare(sweep)
    args = {name: {"value": value} for name, value in run.assigned_args.items()}
    kind = "run" if run.heartbeat_at is None else "resume"
    program = sweep.settings.get("program", "")
    return [{"type": kind, "run_id": run.name, "program": program, "args": args}]


def _wait_or_leave(
    backend: Backend, db: Connection, sweep: SweepRow, agent: AgentRow
) -> list[AgentCommand]:
    """Let an agent exit if its sweep has ended, or if busy agents can take requeued runs.

    An agent without a supervisor stays to the end, since nothing would replace the busy ones. All
    stay while a supervisor interrupts a run: the run is requeued soon, and its agent may exit.
    """
    if finish_if_complete(backend, db, sweep).ended:
        return _leave(backend, db, agent)
    if sweep.local_scheduler:
        return []
    if not agent.supervised or not _has_stand_in(backend, db, agent):
        return []
    return _leave(backend, db, agent)


def _has_stand_in(backend: Backend, db: Connection, agent: AgentRow) -> bool:
    """Return True if another live agent of the sweep has a run, and none is interrupted."""
    others = f"FROM runs WHERE sweep_id = ? AND {IS_ACTIVE} AND queued = 0 AND agent_id != ?"
    which = (agent.sweep_id, agent.id)
    if db.execute(f"SELECT 1 {others} AND announced IS NOT NULL LIMIT 1", which).fetchone():
        return False
    patience, presence = backend.patience.silence_seconds, backend.presence
    busy = db.execute(f"SELECT agent_id {others}", which)  # reading stops at the first match
    return any(presence.silence_seconds("agent", row[0]) < patience for row in busy)
