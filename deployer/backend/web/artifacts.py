"""Artifacts as the pages show them: a run's, and the versions and files of one collection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from deployer.backend.db.accounts import Caller
from deployer.backend.db.artifacts import (
    LATEST,
    Alias,
    Artifact,
    Collection,
    Role,
    find_version,
    latest_version,
    list_artifacts_of,
    list_runs_of,
    list_versions,
)
from deployer.backend.db.files import list_artifact_files
from deployer.backend.db.projects import Project, get_project
from deployer.backend.db.rows import Connection, find, find_all, get
from deployer.backend.db.runs import Run
from deployer.backend.refusal import not_found
from deployer.sweeps.configurations import flatten_configuration
from deployer.wandb_api.model import parse_json

# What a run did with a version, in the words of the pages.
ROLES: dict[Role, str] = {"output": "logged", "input": "used"}


def find_artifact_of(
    db: Connection, caller: Caller, place: Mapping[str, str]
) -> tuple[Project, Collection, Artifact]:
    """Return the version of an address, by number or alias; without one, the newest."""
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
    """Return a version, what is in it, who made and used it, and the collection's versions."""
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


def list_run_artifacts(db: Connection, run: Run) -> list[dict[str, Any]]:
    """Return what a run logged, then what it used."""
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


def list_project_artifacts(db: Connection, project: Project, limit: int) -> list[dict[str, Any]]:
    """Return a project's newest collections, each with its newest version."""
    newest_ones = find_all(db, Collection, "id DESC", project_id=project.id)[:limit]
    found = [(collection, latest_version(db, collection.id)) for collection in newest_ones]
    return [
        {**_describe_collection(db, collection), **_describe_version(newest, [])}
        for collection, newest in found
        if newest
    ]


def _describe_collection(db: Connection, collection: Collection) -> dict[str, Any]:
    project = get(db, Project, collection.project_id)
    return {"project": project.name, "name": collection.name, "type": collection.type}


def _describe_version(row: Artifact, aliases: list[str]) -> dict[str, Any]:
    return {
        "version": f"v{row.version}",
        "aliases": sorted(aliases),
        "size_bytes": row.size_bytes,
        "file_count": row.file_count,
        "created_at": row.created_at,
    }


def _describe_run(db: Connection, run: Run, role: Role) -> dict[str, Any]:
    project = get(db, Project, run.project_id).name
    title = run.display_name or run.name
    return {"project": project, "id": run.name, "title": title, "role": ROLES[role]}
