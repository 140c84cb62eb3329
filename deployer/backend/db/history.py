"""A run's history when another process writes it: whether its rows follow or replace what is there.

A process that does not resume names the run by its short id alone. Its first row decides: at a
later step it continues a resumed run, else it is another run under the same id. Then the rows of a
sweep's run are kept apart, unless they are sent again. The next attempt at a run that was
interrupted may go on from a checkpoint of its own, older than the last row: rows before its first
one stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from statistics import fmean
from typing import Any

from deployer.backend.db.attempts import begin_attempt
from deployer.backend.db.lines import (
    clear_lines,
    count_before,
    last_step,
    read_lines,
    read_rows,
    step_in,
    write_lines,
)
from deployer.backend.db.rows import Connection, change, update
from deployer.backend.db.runs import Run, assigned_config, free_number, insert_run
from deployer.backend.parsing import parse_object, read_object

# As the SDK names them in a summary.
AGGREGATES: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max, "mean": fmean}
# What a process says of itself, and what it is without its word.
SAID: dict[str, str | None] = {
    **dict.fromkeys(("display_name", "group_name", "job_type", "description", "notes")),
    **dict.fromkeys(("host", "program", "commit_hash")),
    "config": "{}",
    "summary": "{}",
    "tags": "[]",
}
LARGEST = 1e200  # sums of smaller numbers are finite


def write_history(db: Connection, run: Run, offset: int, texts: Sequence[str]) -> Run:
    """Write rows at an offset of the stream, once older rows are kept or cleared."""
    run = _decided(db, run, offset, texts)
    early = max(0, run.first_offset - offset)  # of the process before, whose rows were replaced
    write_lines(db, run.id, "history", offset + early - run.first_offset, texts[early:])
    return run


def keep_former(run: Run, said: Collection[str]) -> str | None:
    """Return what the process before said of itself, for when the one that begins is another run.

    `said` are the columns that the new one sends. Of several that log nothing the first counts.
    """
    if run.args is None:
        return None
    former = json.loads(run.former) if run.former else {one: getattr(run, one) for one in SAID}
    return json.dumps({**former, "said": sorted(said)})


def settle_former(db: Connection, run: Run) -> Run:
    """Decide at the end of a process that wrote no row whether it was another run.

    It was if it has values of its own; else the run is as the process before it left it.
    """
    if run.former is None or run.undecided_lines is None:
        return run
    former = json.loads(run.former)
    if any(not name.startswith("_") for name in read_object(run.summary) or {}):
        run = _set_history_apart(db, run)
    else:
        run = change(db, run, **{column: former[column] for column in SAID})
    return change(db, run, undecided_lines=None, former=None)


def complete_summary(db: Connection, run: Run) -> str:
    """Return the summary with `define_metric(summary=…)` counted over the rows of all attempts.

    A process that resumes a run counts its own alone. Reads the whole history.
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


def _decided(db: Connection, run: Run, offset: int, texts: Sequence[str]) -> Run:
    lines = run.undecided_lines
    if lines is None or not texts or offset not in (0, lines):
        return run
    # Some SDKs begin at the offset that they were told, and others at 0 unless they resume.
    kept, step = lines, step_in(texts[0])
    if step <= last_step(db, run.id):
        kept = 0
        if run.former and not _is_sent_again(db, run, texts[0]):
            run = _set_history_apart(db, run)
        elif run.args is not None and not run.former:
            kept = count_before(db, run.id, step)
        clear_lines(db, run.id, "history", since=kept)
    return change(db, run, undecided_lines=None, former=None, first_offset=offset - kept)


def _is_sent_again(db: Connection, run: Run, text: str) -> bool:
    """Tell whether a row is the first one that is there, whose keys may stand in another order."""
    ((_, first),) = read_lines(db, run.id, "history", 0, 1)
    return read_object(text) == read_object(first)


def set_apart(db: Connection, run: Run, now: float) -> Run:
    """Make a run beside a sweep's run, whose agent may write to it; it is not one of the sweep."""
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
    # Its state stays: it is set so that what is derived of the run is derived anew.
    update(db, run, apart=json.dumps([*run.apart_names, name]), state=run.state)
    return made


def _set_history_apart(db: Connection, run: Run) -> Run:
    """Keep a process that has ended as a run of its own, since another one begins anew.

    Each has what it said of itself; return the one that goes on.
    """
    now = run.heartbeat_at or run.created_at
    former: dict[str, Any] = json.loads(run.former or "{}")
    said = former.pop("said", ())
    made = set_apart(db, run, now)
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
