"""The documents of lists: all projects of a user, and one project; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Head = dict[str, Any]


@dataclass(frozen=True)
class ProjectHead:
    """A project with its newest sweeps, as `describe_head` returns them, and its counts."""

    name: str
    sweep_count: int
    run_count: int
    sweeps: Sequence[Head]


def build_home_document(entity: str, projects: Sequence[ProjectHead]) -> dict[str, Any]:
    """Return the page of all projects, those with the newest sweeps first."""
    ordered = sorted(projects, key=_newest, reverse=True)
    return {
        "kind": "home",
        "entity": entity,
        "projects": [{**vars(project), "sweeps": list(project.sweeps)} for project in ordered],
        "active": any(_running(project.sweeps) for project in projects),
    }


def build_project_document(
    entity: str,
    project: str,
    sweeps: Sequence[Head],
    runs: Sequence[dict[str, Any]],
    artifacts: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Return the page of a project: its sweeps, newest runs and artifacts."""
    return {
        "kind": "project",
        "entity": entity,
        "project": project,
        "sweeps": list(sweeps),
        "runs": list(runs),
        "artifacts": list(artifacts),
        "active": _running(sweeps),
    }


def _newest(project: ProjectHead) -> float:
    return max((sweep["created_at"] or 0.0 for sweep in project.sweeps), default=0.0)


def _running(sweeps: Sequence[Head]) -> bool:
    return any(sweep["progress"]["running"] for sweep in sweeps)
