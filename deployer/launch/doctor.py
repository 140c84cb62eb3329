"""The checks of `doctor`: those of `up`, the agents' location, the server, this machine."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from deployer.config import paths
from deployer.config.paths import backend_folder
from deployer.config.project import Project
from deployer.errors import ConfigError, DeployerError, Finding, right, wrong
from deployer.executors.base import (
    Check,
    Demand,
    Executor,
    Limits,
    examine_all,
    judge_clock,
)
from deployer.executors.registry import find_executor
from deployer.launch.check import judge_disk, list_checks, list_place_checks, list_server_checks
from deployer.launch.planning import build_draft
from deployer.launch.request import SweepRequest
from deployer.launch.resolution import find_host
from deployer.launch.script import build_script_check
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from deployer.wandb_api.server import Server

REFUSED = (401, 403)
LOOPBACK = "127.0.0.1"  # where a backend started by `up` listens, whatever its name was before


def examine_server(executor: Executor) -> Iterator[Finding]:
    """Check the selected server; a stopped local backend is not started.

    The cluster's check includes a backend inside it.
    """
    project = executor.project
    try:
        project.check_login()
    except ConfigError as error:
        yield wrong("key", error.place, error.findings[0].message, error.hint)
        return
    if project.embedded:
        if find_host(project, executor) is None:
            yield _examine_own_backend()
        return
    try:
        client = Client(project.wandb, project.require_key(), project.key_source)
        server = Server(client, get_viewer(client), embedded=False)
    except DeployerError as error:
        no_key = isinstance(error, ConfigError) or getattr(error, "status", 0) in REFUSED
        yield wrong("key" if no_key else "server", project.wandb, error.message, error.hint)
        return
    who = server.viewer.name or server.viewer.entity
    yield right("key", project.wandb, f"the key from {project.key_source} is {who}'s")
    if client.ahead_seconds is not None:
        yield judge_clock(project.wandb, client.ahead_seconds)
    yield from examine_all(list_server_checks(executor, server))


def _examine_own_backend() -> Finding:
    """Check the local embedded backend; if it is stopped, whether its port is free."""
    from deployer.backend.server.daemon import backend_status

    backend = backend_status(backend_folder())
    subject = "embedded backend"
    if backend is None:
        return right("backend", subject, "`up` starts it, on a free port")
    if trouble := backend.describe_trouble():
        return wrong("backend", subject, trouble.message, trouble.hint)
    if backend.running:
        return right("backend", subject, f"serves {backend.url}")
    return judge_port(backend.url)


def judge_port(url: str) -> Finding:
    """Check whether the port of a stopped backend is free."""
    port = urlsplit(url).port or 80
    with socket.socket() as probe:
        taken = probe.connect_ex((LOOPBACK, port)) == 0
    if not taken:
        return right("backend", "embedded backend", f"`up` starts it at {url}, which is free")
    said = f"another program uses its port: {url}"
    look = f"ss -tlnp 'sport = :{port}'"
    return wrong(
        "port",
        "embedded backend",
        said,
        f"{look} shows it; deployer backend serve --port 0 uses another",
    )


# The checks of `doctor`: those of `up`, the agents' location, the server, this machine. Nothing is
# made, started or left behind.


def diagnose(project: Project, request: SweepRequest | None) -> tuple[Finding, ...]:
    """Return all findings, ok ones included; with a request, also those of its sweep."""
    executor = find_executor(project)
    demand = _build_demand(executor, request)
    checks = [
        *_list_own_checks(executor, request),
        Check("server", project.wandb, lambda: examine_server(executor)),
        Check("place", executor.name, lambda: executor.examine(demand)),
        *_list_disks(project),
    ]
    return examine_all(checks)


def _build_demand(executor: Executor, request: SweepRequest | None) -> Demand:
    project = executor.project
    url = executor.embedded_url if project.embedded else project.wandb
    plan = build_draft(project, url, project.embedded)
    return Demand(plan, project.replicas, _find_script(project, request))


def _find_script(project: Project, request: SweepRequest | None) -> Path | None:
    program = request.sweep.program if request else None
    return project.code.folder / program if program and program.endswith(".py") else None


def _list_own_checks(executor: Executor, request: SweepRequest | None) -> Sequence[Check]:
    if request is None:
        return list_place_checks(executor, Limits())
    return [*list_checks(executor, request, None), build_script_check(executor, request)]


def _list_disks(project: Project) -> Sequence[Check]:
    """Return the checks of the local folders that `up` fills: its own, and a builder's."""
    folders = [(paths.home(), "the state folder")]
    if project.image.repository and not project.kubernetes.image:
        folders.append((Path("/var/lib"), "images that you build here"))
    return [Check("disk", str(one[0]), partial(_examine_disk, *one)) for one in folders]


def _examine_disk(folder: Path, what: str) -> Iterable[Finding]:
    return (judge_disk(folder, what, shutil.disk_usage(folder).free),)
