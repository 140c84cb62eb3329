"""The pages: which address each has, what must be there, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.accounts import Caller
from deployer.backend.db.agents import Agent
from deployer.backend.db.attempts import list_attempts, list_last_attempts
from deployer.backend.db.database import Connection, select
from deployer.backend.db.files import list_files
from deployer.backend.db.lines import last_lines, read_rows
from deployer.backend.db.projects import Project, get_project, list_projects
from deployer.backend.db.runs import ACTIVE, Run, find_run, list_runs
from deployer.backend.db.sweeps import Sweep, find_sweep, list_sweeps, sweep_by_id
from deployer.backend.refusal import not_found
from deployer.backend.scheduling.context import Backend
from deployer.backend.web.artifacts import (
    describe_artifact,
    find_artifact_of,
    list_project_artifacts,
    list_run_artifacts,
)
from deployer.backend.web.curves import CurveCache, build_all_curves
from deployer.backend.web.summaries import (
    choose_curves,
    console_text,
    describe_attempts,
    describe_command,
    describe_run,
    describe_sweep,
    describe_table,
    run_info,
    summarise_results,
)

Place = Mapping[str, str]

CONSOLE_LINES = 400
RECENT_RUNS = 30
RECENT_ARTIFACTS = 30
SWEEPS_ON_HOME = 5


@dataclass(frozen=True)
class Site:
    """What the pages read from: a backend, and the curves that were read before."""

    backend: Backend
    curves: CurveCache


@dataclass(frozen=True)
class View:
    """A page. `find` refuses with 404 what is not the caller's; `describe` returns its data."""

    path: str
    find: Callable[[Connection, Caller, Place], object]
    describe: Callable[[Site, Caller, Place], dict[str, Any]]


def find_home(_: Connection, caller: Caller, __: Place) -> Caller:
    """Return the caller: everybody has a home."""
    return caller


def find_place(db: Connection, caller: Caller, place: Place) -> Project:
    """Return the project of an address."""
    return get_project(db, caller, place["entity"], place["project"])


def find_sweep_of(db: Connection, caller: Caller, place: Place) -> tuple[Project, Sweep]:
    """Return the sweep of an address, with its project."""
    project = find_place(db, caller, place)
    sweep = find_sweep(db, project, place["sweep"])
    if sweep is None:
        raise not_found(f"sweep {project.entity}/{project.name}/{place['sweep']}")
    return project, sweep


def find_run_of(db: Connection, caller: Caller, place: Place) -> tuple[Project, Run]:
    """Return the run of an address, with its project."""
    project = find_place(db, caller, place)
    run = find_run(db, project, place["run"])
    if run is None:
        raise not_found(f"run {project.entity}/{project.name}/{place['run']}")
    return project, run


def show_home(site: Site, caller: Caller, _: Place) -> dict[str, Any]:
    """Return the caller's projects, each with its newest sweeps."""
    with site.backend.store.snapshot() as db:
        found = []
        for project in list_projects(db, caller, None):
            sweeps = list_sweeps(db, project)
            newest = [(sweep, _runs(db, sweep)) for sweep in sweeps[:SWEEPS_ON_HOME]]
            count = db.execute("SELECT COUNT(*) FROM runs WHERE project_id = ?", (project.id,))
            found.append((project, newest, len(sweeps), count.fetchone()[0]))
    projects = [
        {
            "name": project.name,
            "sweep_count": sweep_count,
            "run_count": run_count,
            "sweeps": [_head(project, sweep, runs) for sweep, runs in newest],
        }
        for project, newest, sweep_count, run_count in found
    ]
    return {"kind": "home", "entity": caller.user.name, "projects": projects}


def show_project(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return a project's sweeps, and its newest runs and artifacts."""
    with site.backend.store.snapshot() as db:
        project = find_place(db, caller, place)
        sweeps = [(sweep, _runs(db, sweep)) for sweep in list_sweeps(db, project)]
        tail = "project_id = ? ORDER BY id DESC LIMIT ?"
        recent = list_runs(db, tail, project.id, RECENT_RUNS)
        artifacts = list_project_artifacts(db, project, RECENT_ARTIFACTS)
    ids = {sweep.id: sweep.name for sweep, _ in sweeps}
    return {
        "kind": "project",
        "entity": project.entity,
        "project": project.name,
        "sweeps": [_head(project, sweep, runs) for sweep, runs in sweeps],
        "runs": [_recent_run(run, ids) for run in recent],
        "artifacts": artifacts,
    }


def show_sweep(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return a sweep's head, its table, its best run and the curves of its metric."""
    with site.backend.store.snapshot() as db:
        project, sweep = find_sweep_of(db, caller, place)
        runs = _runs(db, sweep)
        attempts = list_last_attempts(db, sweep)
        agents = {agent.id: agent.name for agent in _agents(db, sweep)}
    results = summarise_results(project, sweep, runs, attempts)
    by_name = {run.name: run for run in runs}
    chosen = [by_name[name] for name in choose_curves(results)] if results.metric else []
    curves = [(run.name, site.curves.curve(run, results.metric or "")) for run in chosen]
    return {
        "kind": "sweep",
        "entity": project.entity,
        "project": project.name,
        **describe_sweep(sweep, results),
        **describe_table(sweep, results, runs, agents),
        "command": describe_command(sweep, runs, results.best),
        "curves": [{"run": name, "points": curve} for name, curve in curves if curve],
        "active": not sweep.ended or any(run.active for run in runs),
    }


def show_run(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return a run's configuration, summary, curves, console tail, files and artifacts."""
    with site.backend.store.snapshot() as db:
        project, run = find_run_of(db, caller, place)
        sweep = sweep_by_id(db, run.sweep_id) if run.sweep_id else None
        rows = read_rows(db, run.id)
        console = [text for _, text in last_lines(db, run.id, "output", CONSOLE_LINES)]
        files = list_files(db, run.id)
        artifacts = list_run_artifacts(db, run)
        attempts = list_attempts(db, run)
        agents = {agent.id: agent.name for agent in _agents(db, sweep)} if sweep else {}
    curves = build_all_curves(rows)
    return {
        "kind": "run",
        "entity": project.entity,
        "project": project.name,
        **describe_run(run, sweep, attempts),
        "attempts": describe_attempts(attempts, agents),
        "curves": [{"metric": name, "points": points} for name, points in curves.items()],
        "console": console_text(console),
        "files": [{"name": file.name, "size_bytes": file.size_bytes} for file in files],
        "artifacts": artifacts,
        "active": run.state in ACTIVE,
    }


def show_artifact(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return a version of an artifact with its files, and the versions beside it."""
    with site.backend.store.snapshot() as db:
        project, collection, row = find_artifact_of(db, caller, place)
        described = describe_artifact(db, collection, row)
    return {
        "kind": "artifact",
        "entity": project.entity,
        "project": project.name,
        "title": f"{described['name']}:{described['version']}",
        **described,
    }


def _runs(db: Connection, sweep: Sweep) -> list[Run]:
    return list_runs(db, "sweep_id = ? ORDER BY id", sweep.id)


def _agents(db: Connection, sweep: Sweep) -> list[Agent]:
    return select(db, Agent, "agents WHERE sweep_id = ?", [sweep.id])


def _head(project: Project, sweep: Sweep, runs: list[Run]) -> dict[str, Any]:
    return describe_sweep(sweep, summarise_results(project, sweep, runs, {}))


def _recent_run(run: Run, sweep_ids: dict[int, str]) -> dict[str, Any]:
    return {
        "id": run.name,
        "title": run_info(run).title,
        "state": run.state,
        "sweep": sweep_ids.get(run.sweep_id or 0),
        "created_at": run.created_at,
    }


ARTIFACT_PATH = "/{entity:page}/{project}/artifacts/{type}/{collection}"

VIEWS = (
    View("/", find_home, show_home),
    View("/{entity:page}/{project}", find_place, show_project),
    View("/{entity:page}/{project}/sweeps/{sweep}", find_sweep_of, show_sweep),
    View("/{entity:page}/{project}/runs/{run}", find_run_of, show_run),
    View(ARTIFACT_PATH, find_artifact_of, show_artifact),
    View(ARTIFACT_PATH + "/{version}", find_artifact_of, show_artifact),
)
