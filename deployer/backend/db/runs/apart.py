"""What several processes log under the id of one run: each in a run of its own."""

from __future__ import annotations

import json

from deployer.backend.db.database import Connection, insert
from deployer.backend.db.projects import project_by_id
from deployer.backend.db.runs.runs import Run, change_run, find_run, insert_run


def set_apart(db: Connection, run: Run, now: float) -> Run:
    """Make a run beside a sweep's run, whose agent may write to it; it is not one of the sweep."""
    project, number = project_by_id(db, run.project_id), len(run.apart_names) + 2
    while find_run(db, project, name := f"{run.name}-{number}"):
        number += 1
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
    insert(db, "attempts", run_id=made.id, number=1, agent_id=run.agent_id, assigned_at=now)
    # Its state stays: it is set so that what is derived of the run is derived anew.
    change_run(db, run, apart=json.dumps([*run.apart_names, name]), state=run.state)
    return made


def set_history_apart(db: Connection, run: Run) -> None:
    """Keep the rows and the summary of a process that has ended, since another one begins anew."""
    now = run.heartbeat_at or run.created_at
    made = change_run(db, set_apart(db, run, now), summary=run.summary, state="finished")
    change_run(db, made, started_at=now, heartbeat_at=now, ended_at=now)
    moved = "UPDATE lines SET run_id = ? WHERE run_id = ? AND stream = 'history'"
    db.execute(moved, (made.id, run.id))
