"""Find the W&B server in use: started if it is ours, its key checked by a real query."""

from __future__ import annotations

import logging

from deployer.agent.addresses import is_same
from deployer.config.paths import backend_folder
from deployer.config.project import Project
from deployer.errors import BackendError, BackendStopped
from deployer.executors.base import Executor, HostsBackend
from deployer.executors.registry import find_executor
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from deployer.wandb_api.server import Inside, Server

LOG = logging.getLogger(__name__)


def connect(project: Project, executor: Executor | None = None, *, reading: bool = False) -> Server:
    """Start the embedded backend if it is meant, and check the key.

    Where agents work in a cluster, it is in that cluster; what takes its time there is told.
    `executor` is that of the agents, if the caller has it: then its client is used. With `reading`,
    a backend that is stopped stays so: BackendStopped. Raises ConfigError without a key,
    BackendError, WandbError, KubeError or CloudError.
    """
    project.check_login()
    if not project.embedded and not _is_own_backend(project):
        client = Client(project.wandb, project.require_key(), project.key_source)
        pages_url = project.environment.get("WANDB_APP_URL", "")
        return Server(client, get_viewer(client), embedded=False, pages_url=pages_url)
    if host := find_host(project, executor):
        return _connect_inside(host, reading=reading)
    from deployer.backend.data_folder import is_served, read_key
    from deployer.backend.server.daemon import revive_backend, start_backend

    if project.known_data and not project.known_data.is_dir():
        said = f"the copy of its backend, {project.known_data}, is gone"
        raise BackendError(said, "restore the folder from your own backup")
    if reading and not project.known_data and not is_served(backend_folder()):
        raise BackendStopped("the embedded backend is stopped", "deployer backend up")
    backend = start_backend(project.known_data or backend_folder())
    if not reading and (trouble := backend.describe_trouble()):
        LOG.warning(f"{trouble.message} ({trouble.hint})")
    key_file = f"{backend.data} (deployer backend)"
    client = Client(backend.url, read_key(backend.data), key_file, near=True)
    return Server(
        client,
        get_viewer(client),
        embedded=True,
        revive=lambda: revive_backend(backend.data),
    )


def find_host(project: Project, executor: Executor | None = None) -> HostsBackend | None:
    """Return the cluster of the embedded backend; None if it runs here, or W&B's is meant."""
    if not project.embedded:
        return None
    if executor is None or executor.name != project.backend_on:
        executor = find_executor(project, project.backend_on)
    return executor if isinstance(executor, HostsBackend) else None


def _connect_inside(host: HostsBackend, *, reading: bool) -> Server:
    """Reach the backend in a cluster through a port of this machine that lasts as we do."""
    hosted = host.open_backend(make=not reading)
    client = Client(hosted.reached_at, hosted.key, hosted.key_source)
    inside = Inside(
        host.name,
        hosted.url,
        hosted.pages_url,
        hosted.cluster,
        hosted.note_user,
        address=host.address,
        named=host.on,
    )
    return Server(client, get_viewer(client), embedded=True, inside=inside)


def _is_own_backend(project: Project) -> bool:
    """Tell whether an address and a key from the environment are our own backend's.

    `eval "$(deployer backend env)"` says so in W&B's words.
    """
    own = embedded_url()
    if not own or not is_same(project.wandb, own):
        return False
    from deployer.backend.data_folder import read_key

    return project.require_key() == read_key(backend_folder())


def embedded_url() -> str | None:
    """Return the address of this user's embedded backend if it runs; starts nothing."""
    from deployer.backend.data_folder import is_served, read_url

    data = backend_folder()
    return read_url(data) if is_served(data) else None
