"""The pages: their addresses, the rows they need, and their data."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.accounts import Caller, ProjectRow, get_project, list_projects
from deployer.backend.db.artifacts import (
    LATEST,
    Alias,
    Artifact,
    ArtifactRole,
    Collection,
    find_version,
    latest_version,
    list_artifacts_of,
    list_runs_of,
    list_versions,
)
from deployer.backend.db.attempts import list_attempts
from deployer.backend.db.files import File, list_artifact_files, list_run_files
from deployer.backend.db.lines import last_lines, read_rows
from deployer.backend.db.rows import Connection, find, find_all, get, select
from deployer.backend.db.runs import AgentRow, RunRow
from deployer.backend.db.store import Database
from deployer.backend.db.sweeps import SweepRow, find_sweep, list_sweeps
from deployer.backend.request import not_found
from deployer.backend.scheduling.context import Backend
from deployer.backend.storage.blob_folder import BlobFolder
from deployer.backend.web.results import (
    SweepReader,
    fingerprint_project,
    fingerprint_run,
    fingerprint_sweep,
    run_info,
    stopped_early,
    sweep_title,
)
from deployer.model import SweepPath
from deployer.page.curves import build_curve, describe_curve
from deployer.page.run_document import RunSource, build_comparison, build_run_document
from deployer.page.sweep_document import (
    ProjectHead,
    build_home_document,
    build_importance_document,
    build_project_document,
    list_numbers,
)
from deployer.sweeps.configuration_list import build_command_line, flatten_configuration
from deployer.sweeps.results import Results
from deployer.wandb_api.model import parse_environment, parse_json

# The pages' words for a run's role with a version.
ROLES: dict[ArtifactRole, str] = {"output": "logged", "input": "used"}
CONSOLE_LINES = 400
METADATA_FILE = "wandb-metadata.json"
PATCH_FILES = ("diff.patch", "code/diff.patch")
MOST_BYTES = 256 * 1024  # shown of a text file
MOST_EVENTS = 5000
REMEMBERED_CURVES = 1000  # about 30 kB each
REMEMBERED = 50
Params = Mapping[str, str]
MOST_COMPARED = 30
RECENT_RUNS = 30
RECENT_ARTIFACTS = 30
SWEEPS_ON_HOME = 5
ARTIFACT_PATH = "/{entity:page}/{project}/artifacts/{type}/{collection}"
SWEEP_PATH = "/{entity:page}/{project}/sweeps/{sweep}"
RUN_PATH = "/{entity:page}/{project}/runs/{run}"


def find_artifact_of(
    db: Connection, caller: Caller, place: Mapping[str, str]
) -> tuple[ProjectRow, Collection, Artifact]:
    """Return the version of an address, by number or alias; the newest by default."""
    project = get_project(db, caller, place["entity"], place["project"])
    name, version = place["collection"], place.get("version", LATEST)
    collection = find(db, Collection, project_id=project.id, name=name)
    if collection is None or collection.type != place["type"]:
        raise not_found(f"artifact {project.entity}/{project.name}/{name}")
    named = "version" in place
    row = find_version(db, collection, version) if named else latest_version(db, collection.id)
    if row is None:
        raise not_found(f"artifact {project.entity}/{project.name}/{name}:{version}")
    return project, collection, row


def describe_artifact(db: Connection, collection: Collection, row: Artifact) -> dict[str, Any]:
    """Return a version with its files, its producers and consumers, and all other versions."""
    metadata = parse_json(row.metadata or "{}")
    aliases: dict[int, list[str]] = defaultdict(list)
    for alias in find_all(db, Alias, "alias", collection_id=collection.id):
        aliases[alias.artifact_id].append(alias.alias)
    return {
        "name": collection.name,
        "type": collection.type,
        "description": row.description or collection.description,
        **_describe_version(row, aliases[row.id]),
        "digest": row.digest,
        "metadata": flatten_configuration(metadata, tuple(metadata)),
        "files": [
            {"name": file.name, "size_bytes": file.size_bytes, "reference": file.reference}
            for file in list_artifact_files(db, row)
        ],
        "versions": [
            _describe_version(other, aliases[other.id])
            for other in list_versions(db, collection.id)
        ],
        "runs": [
            *[_describe_run(db, run, "output") for run in list_runs_of(db, row, "output")],
            *[_describe_run(db, run, "input") for run in list_runs_of(db, row, "input")],
        ],
    }


def list_run_artifacts(db: Connection, run: RunRow) -> list[dict[str, Any]]:
    return [
        {
            **_describe_collection(db, get(db, Collection, row.collection_id)),
            **_describe_version(
                row, [alias.alias for alias in find_all(db, Alias, artifact_id=row.id)]
            ),
            "role": ROLES[role],
        }
        for role in ROLES
        for row in list_artifacts_of(db, run, role)
    ]


def list_project_artifacts(db: Connection, project: ProjectRow, limit: int) -> list[dict[str, Any]]:
    newest_ones = find_all(db, Collection, "id DESC", project_id=project.id)[:limit]
    found = [(collection, latest_version(db, collection.id)) for collection in newest_ones]
    return [
        {**_describe_collection(db, collection), **_describe_version(newest, [])}
        for collection, newest in found
        if newest
    ]


def _describe_collection(db: Connection, collection: Collection) -> dict[str, Any]:
    project = get(db, ProjectRow, collection.project_id)
    return {"project": project.name, "name": collection.name, "type": collection.type}


def _describe_version(row: Artifact, aliases: list[str]) -> dict[str, Any]:
    return {
        "version": f"v{row.version}",
        "aliases": sorted(aliases),
        "size_bytes": row.size_bytes,
        "file_count": row.file_count,
        "created_at": row.created_at,
    }


def _describe_run(db: Connection, run: RunRow, role: ArtifactRole) -> dict[str, Any]:
    project = get(db, ProjectRow, run.project_id).name
    title = run.display_name or run.name
    return {"project": project, "id": run.name, "title": title, "role": ROLES[role]}


def read_run(db: Connection, blobs: BlobFolder, project: ProjectRow, run: RunRow) -> RunSource:
    sweep = get(db, SweepRow, run.sweep_id) if run.sweep_id else None
    agents = _agent_names(db, sweep)
    attempts = list_attempts(db, run)
    files = list_run_files(db, run.id)
    return RunSource(
        path=SweepPath(project.entity, project.name, sweep.name) if sweep else None,
        entity=project.entity,
        project=project.name,
        run=run_info(run, attempts, agents),
        sweep_title=sweep_title(sweep) if sweep else "",
        metric=sweep.metric_name if sweep else None,
        sweep_ended=bool(sweep and sweep.ended),
        history=read_rows(db, run.id),
        events=read_rows(db, run.id, "events")[-MOST_EVENTS:],
        console=[text for _, text in last_lines(db, run.id, "output", CONSOLE_LINES)],
        files=[{"name": file.name, "size_bytes": file.size_bytes} for file in files],
        artifacts=list_run_artifacts(db, run),
        environment=parse_environment(run.config) or parse_json(_read(blobs, files, METADATA_FILE)),
        outputs={row.number: row.output for row in attempts},
        command=build_command_line(sweep.settings, run.assigned_args) if sweep else None,
        host=run.host,
        stopped_early=bool(sweep and stopped_early(run, sweep)),
        patch=_read(blobs, files, *PATCH_FILES),
    )


def _agent_names(db: Connection, sweep: SweepRow | None) -> dict[int, str]:
    if sweep is None:
        return {}
    return {agent.id: agent.name for agent in find_all(db, AgentRow, sweep_id=sweep.id)}


def _read(blobs: BlobFolder, files: list[File], *names: str) -> str:
    for file in files:
        if file.name in names and file.blob_id is not None:
            with open(blobs.path(file.blob_id), "rb") as stream:
                return stream.read(MOST_BYTES).decode("utf-8", "replace")
    return ""


class CurveCache:
    """Curves of one metric by run, as documents."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self._known: OrderedDict[tuple[int, str], tuple[object, dict[str, Any]]] = OrderedDict()

    def curve(self, run: RunRow, metric: str) -> dict[str, Any]:
        key, version = (run.id, metric), (run.attempt, run.heartbeat_at)
        known = self._known.pop(key, None)
        if known is None or known[0] != version:
            with self._store.snapshot() as db:
                rows = read_rows(db, run.id)
            known = (version, {"run": run.name, **describe_curve(build_curve(rows, metric))})
        self._known[key] = known
        while len(self._known) > REMEMBERED_CURVES:
            self._known.popitem(last=False)
        return known[1]


# Parameter importance of sweeps, cached until the ranked runs change. It takes a second of a core
# or more, so only one is computed at a time.


class ImportanceCache:
    """Importance documents by sweep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int, tuple[object, dict[str, Any]]] = OrderedDict()

    def read(self, sweep_id: int, results: Results) -> dict[str, Any]:
        ranked = [(row.run_id, row.value) for row in results.rows if row.rank is not None]
        with self._lock:
            known = self._known.pop(sweep_id, None)
            if known is None or known[0] != (results.metric, ranked):
                known = ((results.metric, ranked), build_importance_document(results))
            self._known[sweep_id] = known
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            return known[1]


@dataclass(frozen=True)
class Site:
    """The data source of the pages: a backend and caches."""

    backend: Backend
    curves: CurveCache
    sweeps: SweepReader
    importances: ImportanceCache


def open_site(backend: Backend) -> Site:
    return Site(backend, CurveCache(backend.store), SweepReader(backend), ImportanceCache())


@dataclass(frozen=True)
class PageView:
    """A page. `find` refuses rows of other users with 404; `describe` returns the page's data.

    `look` returns a fingerprint of the found rows, which changes if the data may have changed.
    """

    path: str
    find: Callable[[Connection, Caller, Params], Any]
    describe: Callable[[Site, Caller, Params], dict[str, Any]]
    look: Callable[[Connection, Any], object]


def find_home(_: Connection, caller: Caller, __: Params) -> Caller:
    return caller


def find_place(db: Connection, caller: Caller, place: Params) -> ProjectRow:
    return get_project(db, caller, place["entity"], place["project"])


def find_sweep_of(db: Connection, caller: Caller, place: Params) -> tuple[ProjectRow, SweepRow]:
    project = find_place(db, caller, place)
    sweep = find_sweep(db, project, place["sweep"])
    if sweep is None:
        raise not_found(f"sweep {project.entity}/{project.name}/{place['sweep']}")
    return project, sweep


def find_run_of(db: Connection, caller: Caller, place: Params) -> tuple[ProjectRow, RunRow]:
    project = find_place(db, caller, place)
    run = find(db, RunRow, project_id=project.id, name=place["run"])
    if run is None:
        raise not_found(f"run {project.entity}/{project.name}/{place['run']}")
    return project, run


def show_home(site: Site, caller: Caller, _: Params) -> dict[str, Any]:
    with site.backend.store.snapshot() as db:
        projects = []
        for project in list_projects(db, caller, None):
            sweeps = list_sweeps(db, project)
            heads = [site.sweeps.head(db, project, sweep) for sweep in sweeps[:SWEEPS_ON_HOME]]
            count = db.execute("SELECT COUNT(*) FROM runs WHERE project_id = ?", (project.id,))
            projects.append(ProjectHead(project.name, len(sweeps), count.fetchone()[0], heads))
    return build_home_document(caller.user.name, projects)


def show_project(site: Site, caller: Caller, place: Params) -> dict[str, Any]:
    """Return a project's sweeps, and its newest runs and artifacts."""
    with site.backend.store.snapshot() as db:
        project = find_place(db, caller, place)
        sweeps = list_sweeps(db, project)
        heads = [site.sweeps.head(db, project, sweep) for sweep in sweeps]
        tail = "project_id = ? ORDER BY id DESC LIMIT ?"
        recent = select(db, RunRow, f"WHERE {tail}", project.id, RECENT_RUNS)
        artifacts = list_project_artifacts(db, project, RECENT_ARTIFACTS)
    ids = {sweep.id: sweep.name for sweep in sweeps}
    runs = [_recent_run(run, ids) for run in recent]
    return build_project_document(project.entity, project.name, heads, runs, artifacts)


def show_sweep(site: Site, caller: Caller, place: Params) -> dict[str, Any]:
    """Return a sweep's head, its table, its best run, axes and agents."""
    with site.backend.store.snapshot() as db:
        project, sweep = find_sweep_of(db, caller, place)
        return site.sweeps.document(db, project, sweep)


def show_run(site: Site, caller: Caller, place: Params) -> dict[str, Any]:
    """Return a run's configuration, summary, curves, console tail, files and artifacts."""
    with site.backend.store.snapshot() as db:
        project, run = find_run_of(db, caller, place)
        return build_run_document(read_run(db, site.backend.blobs, project, run))


def show_comparison(site: Site, caller: Caller, place: Params) -> dict[str, Any]:
    """Return the runs of the address's `runs` list, side by side."""
    with site.backend.store.snapshot() as db:
        project = find_place(db, caller, place)
        names = list(dict.fromkeys(filter(None, place.get("runs", "").split(","))))[:MOST_COMPARED]
        found = {name: find(db, RunRow, project_id=project.id, name=name) for name in names}
    runs = [run for run in found.values() if run]
    missing = [name for name, run in found.items() if run is None]
    infos = [run_info(run, (), {}) for run in runs]
    metrics = {name for info in infos for name in list_numbers(info.summary)}
    return build_comparison(project.entity, project.name, infos, sorted(metrics), missing)


def show_importance(site: Site, caller: Caller, place: Params) -> dict[str, Any]:
    """Return each parameter's importance for a sweep's metric, or why it is unknown."""
    with site.backend.store.snapshot() as db:
        project, sweep = find_sweep_of(db, caller, place)
        source = site.sweeps.read(db, project, sweep)
    return site.importances.read(sweep.id, source.results)


def show_artifact(site: Site, caller: Caller, place: Params) -> dict[str, Any]:
    """Return a version of an artifact with its files and the collection's other versions."""
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


def _recent_run(run: RunRow, sweep_ids: dict[int, str]) -> dict[str, Any]:
    return {
        "id": run.name,
        "title": run.display_name or run.name,
        "state": run.state,
        "sweep": sweep_ids.get(run.sweep_id or 0),
        "created_at": run.created_at,
    }


def _fingerprint_home(db: Connection, caller: Caller) -> object:
    return [fingerprint_project(db, project) for project in list_projects(db, caller, None)]


def _fingerprint_artifact(db: Connection, found: tuple[ProjectRow, Collection, Artifact]) -> object:
    versions = "SELECT COUNT(*) FROM artifacts WHERE collection_id = ?"
    return db.execute(versions, (found[1].id,)).fetchone()[0], found[2]


VIEWS = (
    PageView("/", find_home, show_home, _fingerprint_home),
    PageView("/{entity:page}/{project}", find_place, show_project, fingerprint_project),
    PageView("/{entity:page}/{project}/compare", find_place, show_comparison, fingerprint_project),
    PageView(
        SWEEP_PATH, find_sweep_of, show_sweep, lambda db, found: fingerprint_sweep(db, found[1])
    ),
    PageView(RUN_PATH, find_run_of, show_run, lambda db, found: fingerprint_run(db, found[1])),
    PageView(ARTIFACT_PATH, find_artifact_of, show_artifact, _fingerprint_artifact),
    PageView(ARTIFACT_PATH + "/{version}", find_artifact_of, show_artifact, _fingerprint_artifact),
)
