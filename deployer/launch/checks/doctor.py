"""What `up` would meet: its own checks, the place of the agents, the server, this machine.

Nothing is made, started or left behind.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from deployer.config import paths
from deployer.config.project import Project
from deployer.executors.base import Demand, Executor, Limits, find_backend_url
from deployer.executors.checks import Check, examine_all
from deployer.executors.registry import find_executor
from deployer.findings import Finding
from deployer.launch.agents.planning import build_draft
from deployer.launch.checks.check import judge_disk, list_checks, list_place_checks
from deployer.launch.checks.script import build_script_check
from deployer.launch.checks.server_examination import examine_server
from deployer.launch.request import Request


def diagnose(project: Project, request: Request | None) -> tuple[Finding, ...]:
    """Return all that is right, wrong or unknown; with a request, of its sweep, too."""
    executor = find_executor(project)
    demand = _build_demand(executor, request)
    checks = [
        *_list_own_checks(executor, request),
        Check("server", project.wandb, lambda: examine_server(executor)),
        Check("place", executor.name, lambda: executor.examine(demand)),
        *_list_disks(project),
    ]
    return examine_all(checks)


def _build_demand(executor: Executor, request: Request | None) -> Demand:
    project = executor.project
    url = find_backend_url(executor) if project.embedded else project.wandb
    plan = build_draft(project, url, project.embedded)
    return Demand(plan, project.replicas, _find_script(project, request))


def _find_script(project: Project, request: Request | None) -> Path | None:
    program = request.sweep.program if request else None
    return project.code.folder / program if program and program.endswith(".py") else None


def _list_own_checks(executor: Executor, request: Request | None) -> Sequence[Check]:
    """Return the checks of `up` that need no server."""
    if request is None:
        return list_place_checks(executor, Limits())
    return [*list_checks(executor, request, None), build_script_check(executor, request)]


def _list_disks(project: Project) -> Sequence[Check]:
    """Return the folders of this machine that `up` fills: its own, and that of a builder."""
    folders = [(paths.home(), "the state folder")]
    if project.image.repository and not project.kubernetes.image:
        folders.append((Path("/var/lib"), "images that you build here"))
    return [Check("disk", str(one[0]), partial(_examine_disk, *one)) for one in folders]


def _examine_disk(folder: Path, what: str) -> Iterable[Finding]:
    return (judge_disk(folder, what, shutil.disk_usage(folder).free),)
