"""The W&B server as `up` would use it: it answers, knows the key, and its clock is ours."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from deployer.config.paths import backend_folder
from deployer.errors import ConfigError, DeployerError
from deployer.executors.base import Executor
from deployer.executors.checks import examine_all
from deployer.executors.clock import judge_clock
from deployer.findings import Finding, right, wrong
from deployer.launch.checks.check import list_server_checks
from deployer.launch.server import find_host
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from deployer.wandb_api.server import Server

REFUSED = (401, 403)
LOOPBACK = "127.0.0.1"  # where one that `up` starts serves, whatever its name was before


def examine_server(executor: Executor) -> Iterator[Finding]:
    """Ask the server that is meant; an embedded one of this machine that rests stays at rest.

    One in a cluster is examined with the cluster.
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
    """Say how the embedded backend of this machine is; while it rests, whether its port is free."""
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
    """Say whether the port at which a backend that rests will serve is free."""
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
