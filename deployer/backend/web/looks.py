"""Whether a page may show something new: values of which some change with whatever it shows."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.projects import Project
from deployer.backend.db.rows import Connection
from deployer.backend.db.runs import Run, mark_of
from deployer.backend.db.sweeps import Sweep

# What of runs may change without a new revision of their sweep.
BESIDES = "exit_code, ended_at, queued, display_name"
FINGERPRINT = (
    "SELECT COUNT(*), TOTAL(exit_code), TOTAL(ended_at), TOTAL(queued),"
    " TOTAL(length(display_name)) FROM runs WHERE sweep_id = ?"
)


def fingerprint(db: Connection, sweep: Sweep) -> tuple[Any, ...]:
    """Return values of which some change with whatever the page of a sweep shows."""
    mark = mark_of(db, sweep.id)
    row = db.execute(FINGERPRINT, (sweep.id,)).fetchone()
    head = (sweep.state, sweep.config, sweep.display_name, sweep.expected, sweep.stop_reason)
    return (*head, mark, *row)


def look_at_sweep(db: Connection, sweep: Sweep) -> tuple[Any, ...]:
    """Return values of which some change with the page of a sweep, its agents among them."""
    agents = "SELECT COUNT(*), COUNT(ended_at) FROM agents WHERE sweep_id = ?"
    return (*fingerprint(db, sweep), *db.execute(agents, (sweep.id,)).fetchone())


def look_at_run(db: Connection, run: Run) -> tuple[Any, ...]:
    """Return values of which some change with the page of a run."""
    files = "SELECT COUNT(*), TOTAL(uploaded_at) FROM files WHERE run_id = ?"
    return (*vars(run).values(), *db.execute(files, (run.id,)).fetchone())


def look_at_project(db: Connection, project: Project) -> tuple[Any, ...]:
    """Return values of which some change with the page of a project."""
    runs = (
        "SELECT COUNT(*), MAX(id), TOTAL(attempt), TOTAL(ended_at), MAX(heartbeat_at),"
        " SUM(state = 'running') FROM runs WHERE project_id = ?"
    )
    sweeps = "SELECT COUNT(*), MAX(updated_at) FROM sweeps WHERE project_id = ?"
    return tuple(
        value
        for question in (runs, sweeps)
        for value in db.execute(question, (project.id,)).fetchone()
    )
