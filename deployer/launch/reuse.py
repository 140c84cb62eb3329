"""`up --reuse`: a sweep of the configurations that another one has not finished."""

from __future__ import annotations

import logging
from dataclasses import replace

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.registry import find_executor
from deployer.images.code import SHORT, find_commit
from deployer.launch.request import SweepRequest
from deployer.launch.resolution import choose_sweep, open_sweep
from deployer.model import Run
from deployer.sweeps.rerun import get_full_snapshot, plan_reuse
from deployer.sweeps.sweep_file import dump_config, parse_sweep

LOG = logging.getLogger(__name__)


def prepare_reuse(
    project: Project, request: SweepRequest, text: str
) -> tuple[Project, SweepRequest]:
    """Return the project for the server of the sweep `text`, and the request for the rest.

    Raises ConfigError if none of its runs can be reused.
    """
    choice = choose_sweep(text, project)
    server, path = open_sweep(choice)
    # Reject another entity or project: then the runs would not be found together.
    named = (project.entity_for(path.entity, path.entity), project.project_for(path.project, None))
    for flag, wanted, given in zip(
        ("--entity", "--project"), (path.entity, path.project), named, strict=True
    ):
        if wanted != given:
            raise ConfigError(flag, f"the reused sweep is in {wanted}", f"{flag} {wanted}")
    source = get_full_snapshot(server, path)
    found = plan_reuse(request.sweep, str(request.file), source)
    LOG.info(
        f"reusing {found.reused} of {found.expected} configurations, already finished in {path}"
    )
    LOG.info(_describe_code(project, source.runs))
    sweep = parse_sweep(dump_config(found.config), str(request.file))
    project = replace(choice.config, on=project.on, explicit_on=project.explicit_on)
    return project, replace(request, sweep=sweep, whole=request.sweep)


def _describe_code(project: Project, runs: tuple[Run, ...]) -> str:
    commits = {str(commit)[:SHORT] for run in runs if (commit := _find_commit(run))}
    then = f"commit {', '.join(sorted(commits))}" if commits else "no commit in their metadata"
    here = find_executor(project).has_folder
    now = find_commit(project.folder, project.environment, "HEAD") if here else None
    new = f"commit {now[:SHORT]}" if now else "an unknown commit"
    return f"code: the finished runs have {then}; the new ones get {new}"


def _find_commit(run: Run) -> str:
    git = run.environment.get("git")
    return str(git.get("commit") or "") if isinstance(git, dict) else ""
