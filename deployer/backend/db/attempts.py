"""Attempts of runs: their assignments, their ends, and which history they may overwrite."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

from deployer.backend.db.accounts import Caller, ProjectRow
from deployer.backend.db.lines import (
    clear_lines,
    count_before,
    last_step,
    read_lines,
    read_rows,
    step_in,
    write_lines,
)
from deployer.backend.db.rows import (
    Connection,
    Record,
    change,
    find,
    find_all,
    select,
    select_one,
    update,
)
from deployer.backend.db.runs import (
    AgentRow,
    RunRow,
    assigned_config,
    free_number,
    insert_assigned,
    insert_run,
)
from deployer.backend.db.sweeps import SweepRow
from deployer.backend.request import parse_object, read_object

FINISHED = "finished"
# The rows and exit record arrived, but the process was then killed, or its end was not observed.
DELIVERED = "delivered"
# As the SDK names them in a summary.
AGGREGATES: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max, "mean": fmean}
# The columns that a process sends about itself, and their defaults.
SAID: dict[str, str | None] = {
    **dict.fromkeys(("display_name", "group_name", "job_type", "description", "notes")),
    **dict.fromkeys(("host", "program", "commit_hash")),
    "config": "{}",
    "summary": "{}",
    "tags": "[]",
}
LARGEST = 1e200  # sums of smaller numbers are finite
RunCursor = tuple[float, int]  # creation time and row id of a run
# SQLite does not accept a document with a bare NaN as JSON, so it is sent as text.
_ROWS = f"""
SELECT created_at, id, json_object(
    'id', 'Run:' || id, 'name', name, 'displayName', display_name, 'state', state,
    'config', CASE WHEN json_valid(config) THEN json(config) ELSE config END,
    'summaryMetrics', CASE WHEN json_valid(summary) THEN json(summary) ELSE summary END,
    'exitcode', exit_code, 'createdAt', created_at,
    'heartbeatAt', COALESCE(heartbeat_at, created_at),
    'deployerApart', json(apart), 'deployerAttempts', (
        SELECT json_group_array(json_object(
            'number', number, 'agentName', agents.name, 'assignedAt', assigned_at,
            'endedAt', one.ended_at, 'cause', cause, 'exitcode', COALESCE(
                process_exit_code, CASE WHEN cause IS NOT '{DELIVERED}' THEN exit_code END)))
        FROM (SELECT * FROM attempts WHERE run_id = runs.id ORDER BY number) AS one
        LEFT JOIN agents ON agents.id = agent_id))
FROM runs WHERE sweep_id = ? AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?
"""


@dataclass(frozen=True)
class AttemptRow(Record):
    """One assignment of a run; `cause` is why it ended, None while active.

    `exit_code` is from the run's exit record, `process_exit_code` from its supervisor.
    `output` is the end of its output, if its supervisor reported it.
    """

    table: ClassVar = "attempts"

    run_id: int
    number: int
    agent_id: int | None
    assigned_at: float
    ended_at: float | None
    cause: str | None
    exit_code: int | None
    process_exit_code: int | None
    output: str | None

    @property
    def known_exit_code(self) -> int | None:
        """Return the process's exit code; None if unknown, e.g. if only rows were delivered."""
        if self.process_exit_code is not None or self.cause == DELIVERED:
            return self.process_exit_code
        return self.exit_code


def list_attempts(db: Connection, run: RunRow) -> list[AttemptRow]:
    return find_all(db, AttemptRow, "number", run_id=run.id)


def list_sweep_attempts(db: Connection, sweep: SweepRow) -> dict[int, list[AttemptRow]]:
    """Return the attempts of each of a sweep's runs, oldest first, by the run's row id."""
    found: dict[int, list[AttemptRow]] = {}
    tail = "WHERE run_id IN (SELECT id FROM runs WHERE sweep_id = ?) ORDER BY number"
    for attempt in select(db, AttemptRow, tail, sweep.id):
        found.setdefault(attempt.run_id, []).append(attempt)
    return found


def assign_run(
    db: Connection, sweep: SweepRow, agent: AgentRow, ordinal: int, args: dict[str, Any], now: float
) -> RunRow:
    run = insert_assigned(db, sweep, ordinal, args, None, now, agent_id=agent.id)
    begin_attempt(db, run.id, 1, agent.id, now)
    return run


def create_run(
    db: Connection, caller: Caller, project: ProjectRow, name: str, now: float
) -> RunRow:
    """Create a run without a sweep, at its first attempt."""
    owner = {"project_id": project.id, "user_id": caller.user.id}
    run = insert_run(db, now, **owner, name=name, display_name=name)
    begin_attempt(db, run.id, 1, None, now)
    return run


def reassign_run(db: Connection, run: RunRow, agent: AgentRow, now: float) -> RunRow:
    """Assign a queued run again, as its next attempt, with its original arguments."""
    number = run.attempt + 1
    begin_attempt(db, run.id, number, agent.id, now)
    return change(
        db,
        run,
        state="pending",
        queued=0,
        preempting=0,
        announced=None,
        stop_requested_at=None,
        attempt=number,
        agent_id=agent.id,
        deliveries=0,
        reported=0,
        started_at=None,
        vanished_at=None,
        ended_at=None,
        exit_code=None,
    )


def repeat_attempt(db: Connection, run: RunRow, cause: str, now: float) -> RunRow:
    """Count a run that was sent again to the same agent as another attempt."""
    end_attempt(db, run, cause, None, now)
    number = run.attempt + 1
    begin_attempt(db, run.id, number, run.agent_id, now)
    return change(db, run, attempt=number)


def end_attempt(db: Connection, run: RunRow, cause: str, exit_code: int | None, now: float) -> None:
    """Record how the run's current attempt ended, unless already recorded.

    An attempt without `wandb.init` has no last step, even if earlier attempts logged rows.
    """
    step = None if run.started_at is None else last_step(db, run.id)
    db.execute(
        "UPDATE attempts SET ended_at = ?, cause = ?, exit_code = ?, last_step = ?"
        " WHERE run_id = ? AND number = ? AND ended_at IS NULL",
        (now, cause, exit_code, step, run.id, run.attempt),
    )
    _doubt_end(db, run.id, run.attempt)


def find_attempt(db: Connection, run: RunRow, agent_name: str, moment: float) -> AttemptRow | None:
    tail = (
        "WHERE run_id = ? AND assigned_at <= ?"
        " AND agent_id IN (SELECT id FROM agents WHERE name = ? AND sweep_id = ?)"
        " ORDER BY number DESC"
    )
    return select_one(db, AttemptRow, tail, run.id, moment, agent_name, run.sweep_id)


def note_process_end(
    db: Connection, attempt: AttemptRow, exit_code: int | None, output: str | None
) -> None:
    """Record how an attempt's process ended, unless a supervisor already reported it."""
    db.execute(
        "UPDATE attempts SET process_exit_code = COALESCE(process_exit_code, ?),"
        " output = COALESCE(output, ?) WHERE run_id = ? AND number = ?",
        (exit_code, output, attempt.run_id, attempt.number),
    )
    _doubt_end(db, attempt.run_id, attempt.number)


def has_process_ended(db: Connection, run: RunRow) -> bool:
    """Return True if a supervisor has reported the end of the current attempt's process."""
    last = last_attempt(db, run)
    return last.process_exit_code is not None or last.output is not None


def _doubt_end(db: Connection, run_id: int, number: int) -> None:
    """Change `finished` to `delivered` for an attempt whose process exited with an error."""
    db.execute(
        "UPDATE attempts SET cause = ? WHERE run_id = ? AND number = ? AND cause = ?"
        " AND process_exit_code != 0",
        (DELIVERED, run_id, number, FINISHED),
    )


def count_stalled_kills(db: Connection, run: RunRow) -> int:
    """Count the kills of a run's own process since an attempt last logged a new highest step.

    Counts only kills that a supervisor saw, or the server while the agent was alive. If the agent
    or machine died, the run has W&B's exit code but no exit code of its process.
    """
    furthest, kills = -1.0, 0
    for step, killed in db.execute(
        "SELECT COALESCE(last_step, -1), cause = 'signal'"
        " AND (process_exit_code IS NOT NULL OR exit_code IS NULL)"
        " FROM attempts WHERE run_id = ? ORDER BY number",
        (run.id,),
    ):
        if step > furthest:
            furthest, kills = step, 0
        else:
            kills += killed or 0
    return kills


def count_early_kills(db: Connection, run: RunRow) -> int:
    """Count the attempts whose process was killed before `wandb.init`, as a supervisor saw."""
    found = db.execute(
        "SELECT COUNT(*) FROM attempts WHERE run_id = ? AND cause IN ('signal', 'OOM')"
        " AND process_exit_code IS NOT NULL AND last_step IS NULL",
        (run.id,),
    )
    return int(found.fetchone()[0])


def last_attempt(db: Connection, run: RunRow) -> AttemptRow:
    """Return the run's current attempt; an empty one if it never had any."""
    found = find(db, AttemptRow, run_id=run.id, number=run.attempt)
    return found or AttemptRow(run.id, run.attempt, None, 0.0, *[None] * 5)


def reopen_attempt(db: Connection, run: RunRow) -> None:
    db.execute(
        "UPDATE attempts SET ended_at = NULL, cause = NULL WHERE run_id = ? AND number = ?",
        (run.id, run.attempt),
    )


def begin_attempt(
    db: Connection, run_id: int, number: int, agent_id: int | None, now: float
) -> None:
    db.execute(
        "INSERT INTO attempts (run_id, number, agent_id, assigned_at) VALUES (?, ?, ?, ?)",
        (run_id, number, agent_id, now),
    )


# When another process writes a run's history, its rows either follow or replace the existing rows.
# A process that does not resume sends only the run's short id. Its first row decides: at a later
# step it continues a resumed run, else it is another run under the same id. In that case the old
# rows of a sweep's run move to a separate run, unless the new process sends the same rows again.
# The next attempt of an interrupted run may continue from its own checkpoint, older than the last
# row. The rows before its first row stay.


def write_history(db: Connection, run: RunRow, offset: int, texts: Sequence[str]) -> RunRow:
    """Decide whether older rows stay, then write rows at an offset of the stream."""
    run = _decided(db, run, offset, texts)
    early = max(0, run.first_offset - offset)  # rows of the previous process, which were replaced
    write_lines(db, run.id, "history", offset + early - run.first_offset, texts[early:])
    return run


def keep_former(run: RunRow, said: Collection[str]) -> str | None:
    """Return the previous process's columns as JSON, in case the new process is another run.

    `said` are the columns that the new process sends. If several processes in a row log nothing,
    the columns before the first of them are kept.
    """
    if run.args is None:
        return None
    former = json.loads(run.former) if run.former else {one: getattr(run, one) for one in SAID}
    return json.dumps({**former, "said": sorted(said)})


def decide_former(db: Connection, run: RunRow) -> RunRow:
    """Decide at the end of a process that wrote no row whether it was another run.

    It was another run if it has summary values; else restore the columns of the previous process.
    """
    if run.former is None or run.undecided_lines is None:
        return run
    former = json.loads(run.former)
    if any(not name.startswith("_") for name in read_object(run.summary) or {}):
        run = _split_history_off(db, run)
    else:
        run = change(db, run, **{column: former[column] for column in SAID})
    return change(db, run, undecided_lines=None, former=None)


def complete_summary(db: Connection, run: RunRow) -> str:
    """Return the summary with `define_metric(summary=…)` computed over the rows of all attempts.

    A process that resumes a run uses only its own rows. Reads the whole history.
    """
    if run.attempt < 2 or not any(f'"{kind}":' in run.summary for kind in AGGREGATES):
        return run.summary
    summary = parse_object(run.summary, "the summary")
    _aggregate(summary, "", read_rows(db, run.id))
    return json.dumps(summary)


def _aggregate(part: dict[str, Any], prefix: str, rows: Sequence[dict[str, Any]]) -> None:
    for name, value in part.items():
        if isinstance(value, dict):
            logged = [row.get(prefix + name) for row in rows]
            numbers = [n for n in logged if isinstance(n, int | float) and abs(n) < LARGEST]
            for kind in AGGREGATES.keys() & value.keys() if numbers else ():
                value[kind] = AGGREGATES[kind](numbers)
            _aggregate(value, f"{prefix}{name}.", rows)


def _decided(db: Connection, run: RunRow, offset: int, texts: Sequence[str]) -> RunRow:
    lines = run.undecided_lines
    if lines is None or not texts or offset not in (0, lines):
        return run
    # Some SDKs begin at the offset that the server returned, others at 0 unless they resume.
    kept, step = lines, step_in(texts[0])
    if step <= last_step(db, run.id):
        kept = 0
        if run.former and not _is_sent_again(db, run, texts[0]):
            run = _split_history_off(db, run)
        elif run.args is not None and not run.former:
            kept = count_before(db, run.id, step)
        clear_lines(db, run.id, "history", since=kept)
    return change(db, run, undecided_lines=None, former=None, first_offset=offset - kept)


def _is_sent_again(db: Connection, run: RunRow, text: str) -> bool:
    """Return True if a row equals the first one; the order of its keys does not matter."""
    ((_, first),) = read_lines(db, run.id, "history", 0, 1)
    return read_object(text) == read_object(first)


def split_off(db: Connection, run: RunRow, now: float) -> RunRow:
    """Create a run next to a sweep's run: same agent, same group, but not part of the sweep."""
    number = free_number(db, run.project_id, run.name, len(run.apart_names) + 2)
    name = f"{run.name}-{number}"
    made = insert_run(
        db,
        now,
        project_id=run.project_id,
        user_id=run.user_id,
        agent_id=run.agent_id,
        name=name,
        display_name=f"{run.display_name} ({number})",
        group_name=run.name,
        config=run.config,
    )
    begin_attempt(db, made.id, 1, run.agent_id, now)
    # Set the unchanged state, so that values derived from the run are recomputed.
    update(db, run, apart=json.dumps([*run.apart_names, name]), state=run.state)
    return made


def _split_history_off(db: Connection, run: RunRow) -> RunRow:
    """Move the history of an ended process to a separate run, since a new process starts over.

    Each run keeps the columns that its process sent. Return the run of the new process.
    """
    now = run.heartbeat_at or run.created_at
    former: dict[str, Any] = json.loads(run.former or "{}")
    said = former.pop("said", ())
    made = split_off(db, run, now)
    own = {column: value for column, value in former.items() if value is not None}
    if own.get("display_name") == run.name:
        own["display_name"] = f"{run.name} ({made.name.rpartition('-')[2]})"
    made = change(db, made, **own, state="finished")
    update(db, made, started_at=now, heartbeat_at=now, ended_at=now)
    moved = "UPDATE lines SET run_id = ? WHERE run_id = ? AND stream = 'history'"
    db.execute(moved, (made.id, run.id))
    unsaid = {**SAID, "display_name": run.name, "config": assigned_config(run.assigned_args)}
    inherited = {
        column: value
        for column, value in unsaid.items()
        if column not in said and getattr(run, column) == former.get(column)
    }
    return change(db, run, **inherited)


# A sweep's runs as JSON that SQLite writes: thousands at once, for clients that rank all runs.
# Keys have the names of W&B's schema, configuration and summary are unchanged, times are in seconds
# since the epoch.


def read_run_table(
    db: Connection, sweep: SweepRow, after: RunCursor | None, size: int
) -> tuple[str, RunCursor | None]:
    """Return up to `size` runs as a JSON array, oldest first, and the cursor of the last one.

    The cursor is None if no run follows.
    """
    found = db.execute(_ROWS, (sweep.id, *(after or (-1.0, 0)), size + 1)).fetchall()
    page = found[:size]
    place = (page[-1][0], page[-1][1]) if len(found) > size else None
    return f"[{','.join(row[2] for row in page)}]", place
