"""A sweep's runs as JSON that SQLite itself writes: thousands at once, for whoever ranks them all.

A run has the names of W&B's schema, its configuration and its summary as they are, its times in
seconds since the epoch.
"""

from __future__ import annotations

from deployer.backend.db.attempts import DELIVERED
from deployer.backend.db.rows import Connection
from deployer.backend.db.sweeps import Sweep

Place = tuple[float, int]  # when a run was made, its row

# A document that holds a bare NaN is not JSON to SQLite, and goes as the text that it is.
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


def read_run_table(
    db: Connection, sweep: Sweep, after: Place | None, size: int
) -> tuple[str, Place | None]:
    """Return up to `size` runs as a JSON array, oldest first, and the last one's place.

    The place is None where no run follows.
    """
    found = db.execute(_ROWS, (sweep.id, *(after or (-1.0, 0)), size + 1)).fetchall()
    page = found[:size]
    place = (page[-1][0], page[-1][1]) if len(found) > size else None
    return f"[{','.join(row[2] for row in page)}]", place
