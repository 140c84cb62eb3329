"""The pages: which address each has, what must be there, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.accounts import Caller
from deployer.backend.db.artifacts import Artifact, Collection
from deployer.backend.db.projects import Project, get_project, list_projects
from deployer.backend.db.rows import Connection, find, select
from deployer.backend.db.runs import Run
from deployer.backend.db.sweeps import Sweep, find_sweep, list_sweeps
from deployer.backend.refusal import not_found
from deployer.backend.scheduling.context import Backend
from deployer.backend.web.artifacts import (
    describe_artifact,
    find_artifact_of,
    list_project_artifacts,
)
from deployer.backend.web.curves import CurveCache
from deployer.backend.web.importance import ImportanceCache
from deployer.backend.web.looks import look_at_project, look_at_run, look_at_sweep
from deployer.backend.web.results import SweepReader, run_info
from deployer.backend.web.run import read_run
from deployer.page.cells import list_numbers
from deployer.page.lists import ProjectHead, build_home_document, build_project_document
from deployer.page.run_document import build_comparison, build_run_document

Place = Mapping[str, str]

MOST_COMPARED = 30
RECENT_RUNS = 30
RECENT_ARTIFACTS = 30
SWEEPS_ON_HOME = 5


@dataclass(frozen=True)
class Site:
    """What the pages read from: a backend, and what was read before."""

    backend: Backend
    curves: CurveCache
    sweeps: SweepReader
    importances: ImportanceCache


def open_site(backend: Backend) -> Site:
    """Return what the pages of a backend read from."""
    return Site(backend, CurveCache(backend.store), SweepReader(backend), ImportanceCache())


@dataclass(frozen=True)
class View:
    """A page. `find` refuses with 404 what is not the caller's; `describe` returns its data.

    `look` returns, of what `find` found, something that is another one once the data may be.
    """

    path: str
    find: Callable[[Connection, Caller, Place], Any]
    describe: Callable[[Site, Caller, Place], dict[str, Any]]
    look: Callable[[Connection, Any], object]


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
    run = find(db, Run, project_id=project.id, name=place["run"])
    if run is None:
        raise not_found(f"run {project.entity}/{project.name}/{place['run']}")
    return project, run


def show_home(site: Site, caller: Caller, _: Place) -> dict[str, Any]:
    """Return the caller's projects, each with its newest sweeps."""
    with site.backend.store.snapshot() as db:
        projects = []
        for project in list_projects(db, caller, None):
            sweeps = list_sweeps(db, project)
            heads = [site.sweeps.head(db, project, sweep) for sweep in sweeps[:SWEEPS_ON_HOME]]
            count = db.execute("SELECT COUNT(*) FROM runs WHERE project_id = ?", (project.id,))
            projects.append(ProjectHead(project.name, len(sweeps), count.fetchone()[0], heads))
    return build_home_document(caller.user.name, projects)


def show_project(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return a project's sweeps, and its newest runs and artifacts."""
    with site.backend.store.snapshot() as db:
        project = find_place(db, caller, place)
        sweeps = list_sweeps(db, project)
        heads = [site.sweeps.head(db, project, sweep) for sweep in sweeps]
        tail = "project_id = ? ORDER BY id DESC LIMIT ?"
        recent = select(db, Run, f"WHERE {tail}", project.id, RECENT_RUNS)
        artifacts = list_project_artifacts(db, project, RECENT_ARTIFACTS)
    ids = {sweep.id: sweep.name for sweep in sweeps}
    runs = [_recent_run(run, ids) for run in recent]
    return build_project_document(project.entity, project.name, heads, runs, artifacts)


def show_sweep(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return a sweep's head, its table, its best run, axes and agents."""
    with site.backend.store.snapshot() as db:
        project, sweep = find_sweep_of(db, caller, place)
        return site.sweeps.document(db, project, sweep)


def show_run(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return a run's configuration, summary, curves, console tail, files and artifacts."""
    with site.backend.store.snapshot() as db:
        project, run = find_run_of(db, caller, place)
        return build_run_document(read_run(db, site.backend.blobs, project, run))


def show_comparison(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return the runs that the address names, side by side."""
    with site.backend.store.snapshot() as db:
        project = find_place(db, caller, place)
        names = list(dict.fromkeys(filter(None, place.get("runs", "").split(","))))[:MOST_COMPARED]
        found = {name: find(db, Run, project_id=project.id, name=name) for name in names}
    runs = [run for run in found.values() if run]
    missing = [name for name, run in found.items() if run is None]
    infos = [run_info(run, (), {}) for run in runs]
    metrics = {name for info in infos for name in list_numbers(info.summary)}
    return build_comparison(project.entity, project.name, infos, sorted(metrics), missing)


def show_importance(site: Site, caller: Caller, place: Place) -> dict[str, Any]:
    """Return what each parameter of a sweep explains of its metric, or why that is not known."""
    with site.backend.store.snapshot() as db:
        project, sweep = find_sweep_of(db, caller, place)
        source = site.sweeps.read(db, project, sweep)
    return site.importances.read(sweep.id, source.results)


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


def _recent_run(run: Run, sweep_ids: dict[int, str]) -> dict[str, Any]:
    return {
        "id": run.name,
        "title": run.display_name or run.name,
        "state": run.state,
        "sweep": sweep_ids.get(run.sweep_id or 0),
        "created_at": run.created_at,
    }


def _look_at_home(db: Connection, caller: Caller) -> object:
    return [look_at_project(db, project) for project in list_projects(db, caller, None)]


def _look_at_artifact(db: Connection, found: tuple[Project, Collection, Artifact]) -> object:
    versions = "SELECT COUNT(*) FROM artifacts WHERE collection_id = ?"
    return db.execute(versions, (found[1].id,)).fetchone()[0], found[2]


ARTIFACT_PATH = "/{entity:page}/{project}/artifacts/{type}/{collection}"
SWEEP_PATH = "/{entity:page}/{project}/sweeps/{sweep}"
RUN_PATH = "/{entity:page}/{project}/runs/{run}"

VIEWS = (
    View("/", find_home, show_home, _look_at_home),
    View("/{entity:page}/{project}", find_place, show_project, look_at_project),
    View("/{entity:page}/{project}/compare", find_place, show_comparison, look_at_project),
    View(SWEEP_PATH, find_sweep_of, show_sweep, lambda db, found: look_at_sweep(db, found[1])),
    View(RUN_PATH, find_run_of, show_run, lambda db, found: look_at_run(db, found[1])),
    View(ARTIFACT_PATH, find_artifact_of, show_artifact, _look_at_artifact),
    View(ARTIFACT_PATH + "/{version}", find_artifact_of, show_artifact, _look_at_artifact),
)
