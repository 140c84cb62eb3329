"""What is refused, and what is doubtful, before anything is made or paid for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.target import Limits, Target
from deployer.launch.lock.file import check_lock_place
from deployer.launch.one_run_per_job import count_agents
from deployer.launch.planning import build_draft, choose_bound
from deployer.launch.request import Request
from deployer.sweeps.creation import check_draws, check_names
from deployer.sweeps.hyperparameter_sets import check_sets_file
from deployer.sweeps.program import check_program
from deployer.text import format_seconds
from deployer.wandb_api.client import is_loopback
from deployer.wandb_api.server import Inside, Server

MANY_AGENTS = 20


def check(project: Project, target: Target, request: Request, server: Server | None) -> None:
    """Refuse what cannot work, without changing anything; `server` is None if it is yet to be made.

    Raises ConfigError.
    """
    check_program_here(target, request.sweep.config, project.code.folder, str(request.file))
    check_lock_place(request.lock)
    viewer = server.viewer.entity if server else ""
    check_names(
        entity=project.entity_for(request.sweep.entity, viewer),
        project=project.project_for(request.sweep.project, request.sweep.program),
    )
    if server is not None:
        check_reach(target, server.url, server.inside)
        check_draws(server, request.draws)
    if request.one_run:
        count_agents(request.sweep.expected, choose_bound(project, target, True))
    url = server.url if server else target.backend_url
    draft = build_draft(project, url, server.extended if server else True)
    target.check(draft, build_limits(project, request))
    target.check_data()


def check_reach(target: Target, base_url: str, inside: Inside | None = None) -> None:
    """Refuse agents that would not reach their server; raises ConfigError.

    That is in a cluster for a server on this machine's own address, and here for one `inside`.
    """
    if inside and inside.on != target.name:
        said = f"agents on {target.name} do not reach {base_url}, the embedded backend"
        start = f"start them there: --on {inside.on}"
        raise ConfigError("--on", f"{said} of --on {inside.on}", start)
    if target.runs_here or not is_loopback(base_url):
        return
    raise ConfigError(
        "--on",
        f"pods in a cluster do not reach {base_url}, an address of this machine alone",
        "deployer backend down; deployer backend serve --host ADDRESS, one that pods reach",
    )


def build_limits(project: Project, request: Request) -> Limits:
    """Return what may be spent; with an agent for each run and no bound, all that there may be."""
    agents = None if request.one_run and project.given_replicas is None else project.replicas
    return Limits(agents, request.max_seconds, request.capacity_seconds)


def check_program_here(target: Target, config: Mapping[str, Any], folder: Path, place: str) -> None:
    """Refuse a program, or a file of sets, that is not as the sweep says in the agents' code.

    Raises ConfigError.
    """
    if target.has_folder:
        check_program(config, folder, place)
        check_sets_file(config, folder, place)


def warn_about_many(server: Server, replicas: int) -> str:
    """Say why more agents may not help on a server with W&B's limits; empty if all is well."""
    if server.extended or replicas <= MANY_AGENTS:
        return ""
    return (
        f"{replicas} agents send {12 * replicas} heartbeats a minute; W&B's servers were seen to "
        f"refuse more than 200 requests a minute, so above {MANY_AGENTS} agents runs come late"
    )


def warn_about_deadline(target: Target) -> str:
    """Say that Jobs which wait for their turn come nearer to their end meanwhile, else empty.

    A queue suspends them until they may run, and only then their time begins.
    """
    seconds = target.queued_seconds
    if seconds is None:
        return ""
    return (
        f"kubernetes.max_time: each Job ends after {format_seconds(seconds)}, its wait for a "
        "free place included; --replicas N makes the next ones only when there is room"
    )
