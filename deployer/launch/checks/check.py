"""What is refused, and what is doubtful, before anything is made or paid for."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.agent.settings import TOKEN_FILE_VARIABLE
from deployer.config import paths
from deployer.config.code import Code
from deployer.config.project import Project
from deployer.errors import ConfigError, DeployerError, WandbError
from deployer.executors.base import Executor, KeepsData, Limits, find_backend_url
from deployer.executors.checks import Check, run_checks
from deployer.findings import Finding, right, warning, wrong
from deployer.images.code import SHORT
from deployer.images.code_archive import list_left_out
from deployer.launch.agents.one_run_per_job import count_agents
from deployer.launch.agents.planning import build_draft, choose_bound
from deployer.launch.request import Request
from deployer.sweeps.creation import Draws, check_draws, choose_names
from deployer.sweeps.hyperparameter_sets import check_sets_file
from deployer.sweeps.problem import Problem, Problems
from deployer.sweeps.program import check_program, list_scripts
from deployer.sweeps.validation.scheduler import has_local_scheduler
from deployer.text import format_bytes, format_seconds
from deployer.wandb_api.client import is_loopback
from deployer.wandb_api.operations import list_projects
from deployer.wandb_api.server import Inside, Server

MANY_AGENTS = 20
LEAST_FREE_BYTES = 1 << 30  # a few checkpoints, or the image that a builder unpacks
FULL_BYTES = 16 << 20  # the records of a sweep, and the logs of its first minutes
PORT = re.compile(r"--master[-_]port[= ][1-9]\d*|--rdzv[-_]endpoint[= ]\S*:[1-9]\d*")


def check(executor: Executor, request: Request, server: Server | None) -> None:
    """Refuse what cannot work, without changing anything; `server` is None if it is yet to be made.

    Raises ConfigError, DeployerError.
    """
    check_disk(paths.home())
    run_checks(list_checks(executor, request, server))


def check_disk(folder: Path) -> None:
    """Refuse to fill a disk that is full; raises DeployerError."""
    found = judge_disk(folder, "the state folder", shutil.disk_usage(folder).free)
    if found.is_error:
        raise DeployerError(found.text, found.fix)


def judge_disk(folder: Path, what: str, free_bytes: int) -> Finding:
    """Say whether there is room in a folder; pure."""
    said = f"{format_bytes(free_bytes)} free for {what}"
    make_room = f"du -xh -d 2 {folder} | sort -h | tail"
    if free_bytes < FULL_BYTES:
        return wrong("disk", str(folder), f"the disk is full: {said}", make_room)
    if free_bytes < LEAST_FREE_BYTES:
        return warning("disk", str(folder), f"{said}, less than 1 GiB", make_room)
    return right("disk", str(folder), said)


def list_checks(executor: Executor, request: Request, server: Server | None) -> Sequence[Check]:
    """Return what `up` asks before it makes anything, in its order."""
    config, file, project = request.started, str(request.file), executor.project
    return (
        Check(
            "program",
            file,
            lambda: check_program_here(executor, config, project.code, file),
            "its program is there",
        ),
        Check("names", file, lambda: _check_names(executor, request, server), "its names fit"),
        *list_server_checks(executor, server, request),
        Check(
            "runs",
            file,
            lambda: _check_one_run(executor, request),
            "its runs can be counted",
        ),
        *list_place_checks(executor, build_limits(project, request), server),
    )


def list_server_checks(
    executor: Executor, server: Server | None, request: Request | None = None
) -> Sequence[Check]:
    """Return what depends on the server: whether agents reach it, and what it can draw."""
    if server is None:
        return ()
    draws = request.draws if request else Draws()
    return (
        Check(
            "reach",
            server.url,
            lambda: check_reach(executor, server.url, server.inside),
            "agents can reach its address",
        ),
        Check("draws", server.url, lambda: check_draws(server, draws), "it has the wanted draws"),
    )


def list_place_checks(
    executor: Executor, limits: Limits, server: Server | None = None
) -> Sequence[Check]:
    """Return what depends on where agents run: their settings, and the data sets of this machine.

    Contacts nothing.
    """
    url = server.url if server else find_backend_url(executor)
    draft = build_draft(executor.project, url, server.extended if server else True)
    name = executor.name
    checks = [Check("settings", name, lambda: executor.check(draft, limits), "the settings fit")]
    if isinstance(executor, KeepsData):
        checks.append(Check("data", name, executor.check_data, "the data sets are there"))
    return checks


def _check_one_run(executor: Executor, request: Request) -> None:
    """Refuse an agent for each run where runs have no number or pods several agents."""
    if not request.one_run:
        return
    count_agents(request.sweep.expected, choose_bound(executor.project, executor, True))
    packed = executor.project.kubernetes.agents_per_pod
    if packed > 1 and not executor.runs_here:
        said = f"a pod of {packed} agents ends with the last of their runs"
        hint = "leave --one-run-per-job out, or agents_per_pod"
        raise ConfigError("deployer.yaml: kubernetes.agents_per_pod", said, hint)


def _check_names(executor: Executor, request: Request, server: Server | None) -> None:
    """Refuse names that are none, and an entity that W&B does not show to this account."""
    viewer = server.viewer.entity if server else ""
    entity, _ = choose_names(executor.project, request.sweep, viewer)
    if server is None or server.embedded or entity == viewer:
        return
    try:
        list_projects(server.client, entity)
    except WandbError as error:
        if error.passing:
            raise
        raise ConfigError("--entity", error.message, f"--entity {viewer}") from error


def check_reach(executor: Executor, base_url: str, inside: Inside | None = None) -> None:
    """Refuse agents that would not reach their server; raises ConfigError.

    That is in a cluster for a server on this machine's own address, and here for one `inside`.
    """
    if inside and inside.on != executor.name:
        said = f"agents on {executor.name} cannot reach {base_url}, the embedded backend"
        start = f"start them there: --on {inside.place}"
        raise ConfigError("--on", f"{said} of --on {inside.on}", start)
    project = executor.project
    by_identity = project.kubernetes.identity_audience is not None
    if not (executor.runs_here or project.embedded or project.key or by_identity):
        said = "is a file of this machine, and pods need a login as well"
        hint = "kubernetes: {identity_audience: AUDIENCE} in deployer.yaml, or WANDB_API_KEY"
        raise ConfigError(TOKEN_FILE_VARIABLE, said, hint)
    if executor.runs_here or not is_loopback(base_url):
        return
    raise ConfigError(
        "--on",
        f"pods in a cluster cannot reach {base_url}, an address of this machine",
        "deployer backend down; deployer backend serve --host ADDRESS, which pods must reach",
    )


def build_limits(project: Project, request: Request) -> Limits:
    """Return what may be spent; with an agent for each run and no bound, all that there may be."""
    agents = None if request.one_run and project.given_replicas is None else project.replicas
    return Limits(agents, request.max_seconds, request.capacity_seconds)


def check_program_here(
    executor: Executor, config: Mapping[str, Any], code: Code, place: str
) -> None:
    """Refuse a program, or a file of sets, that is not as the sweep says in the agents' code.

    Refuse what no server of ours serves, too. Raises ConfigError.
    """
    for one in find_unserved(executor.project, config):
        raise ConfigError(f"{place}: {one.path[0]}", one.message, one.hint)
    if executor.has_folder:
        archived = not executor.runs_here
        check_program(config, code.folder, place, code.commit[:SHORT], archived)
        if not executor.runs_here and not code.commit:
            _check_tracked(config, code.folder, place)
        check_sets_file(config, code.folder, place)


def find_unserved(project: Project, config: Mapping[str, Any]) -> Problems:
    """Yield what the embedded backend refuses: a local controller."""
    if not project.embedded:
        return
    named = not has_local_scheduler(config) and config.get("controller")
    if isinstance(named, Mapping) and named.get("type") == "local":
        from deployer.backend.scheduling.config_warnings import LOCAL_CONTROLLER  # its engine, too

        said, _, hint = LOCAL_CONTROLLER.partition(": ")
        yield Problem(("controller",), said, hint)


def _check_tracked(config: Mapping[str, Any], folder: Path, place: str) -> None:
    """Refuse a script that git does not track: pods would not get it. Raises ConfigError."""
    for key, name in list_scripts(config):
        if name in list_left_out(folder):
            said = f"git does not track {name}, and pods get only tracked files"
            raise ConfigError(f"{place}: {key}", said, f"git add {name}")


def warn_about_many(server: Server, replicas: int) -> str:
    """Say why more agents may not help on a server with W&B's limits; empty if all is well."""
    if server.extended or replicas <= MANY_AGENTS:
        return ""
    return (
        f"{replicas} agents send {12 * replicas} heartbeats a minute; W&B's servers refuse "
        f"more than about 200 requests a minute, so with over {MANY_AGENTS} agents runs start late"
    )


def warn_about_port(executor: Executor, config: Mapping[str, Any], agents: int) -> str:
    """Name a port for processes of one run that several agents of this machine would share."""
    named = PORT.search(" ".join(str(word) for word in config.get("command") or ()))
    if not named or agents < 2 or not executor.runs_here:
        return ""
    said = f"{named[0]}: one port for {agents} agents of this machine, and the second run fails"
    return f"{said}; torchrun --standalone uses a free port"


def warn_about_deadline(executor: Executor) -> str:
    """Say that Jobs which wait for their turn come nearer to their end meanwhile, else empty.

    A queue suspends them until they may run, and only then their time begins.
    """
    seconds = executor.queued_seconds
    if seconds is None:
        return ""
    return (
        f"kubernetes.max_time: each Job ends after {format_seconds(seconds)}, including "
        "its wait for room; --replicas N starts the next ones only when there is room"
    )
