"""What `up` would meet: its own checks, the place of the agents, the server, this machine.

Nothing is made, started or left behind; `mend` is the exception, and tells what it does.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from deployer.config import paths
from deployer.config.project import Project
from deployer.executors.checks import Question, examine_all
from deployer.executors.registry import find_target
from deployer.executors.target import Demand, Limits, Target
from deployer.findings import Finding
from deployer.launch.agents.planning import build_draft
from deployer.launch.checks.check import judge_disk, list_checks, list_target_checks
from deployer.launch.checks.script import ask_about_script
from deployer.launch.checks.server_examination import examine_server
from deployer.launch.request import Request


def diagnose(project: Project, request: Request | None) -> tuple[Finding, ...]:
    """Return all that is right, wrong or unknown; with a request, of its sweep, too."""
    target = find_target(project)
    demand = _build_demand(project, target, request)
    questions = [
        *_list_own_questions(project, target, request),
        Question("server", project.wandb, lambda: examine_server(project, target)),
        Question("place", target.name, lambda: target.examine(demand)),
        *_list_disks(project),
    ]
    return examine_all(questions)


def mend(project: Project, findings: Sequence[Finding]) -> bool:
    """Mend what is wrong where that is safe; tell each, and return whether anything was done."""
    target = find_target(project)
    done = [target.mend(one) for one in findings if one.is_error]
    return any(done)


def _build_demand(project: Project, target: Target, request: Request | None) -> Demand:
    url = target.backend_url if project.embedded else project.wandb
    plan = build_draft(project, url, project.embedded)
    bayes = project.embedded and request is not None and request.is_bayes
    return Demand(plan, project.replicas, _find_script(project, request), bayes)


def _find_script(project: Project, request: Request | None) -> Path | None:
    program = request.sweep.program if request else None
    return project.code.folder / program if program and program.endswith(".py") else None


def _list_own_questions(
    project: Project, target: Target, request: Request | None
) -> Sequence[Question]:
    """Return the checks of `up` that need no server."""
    if request is None:
        return [one.question() for one in list_target_checks(project, target, Limits())]
    checks = [one.question() for one in list_checks(project, target, request, None)]
    return [*checks, ask_about_script(project, target, request)]


def _list_disks(project: Project) -> Sequence[Question]:
    """Return the folders of this machine that `up` fills: its own, and that of a builder."""
    folders = [(paths.home(), "the state folder")]
    if project.image.repository and not project.kubernetes.image:
        folders.append((Path("/var/lib"), "images that are built here"))
    return [Question("disk", str(one[0]), partial(_examine_disk, *one)) for one in folders]


def _examine_disk(folder: Path, what: str) -> Iterable[Finding]:
    return (judge_disk(folder, what, shutil.disk_usage(folder).free),)
