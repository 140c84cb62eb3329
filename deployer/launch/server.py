"""Find the W&B server in use: started if it is ours, its key checked by a real query."""

from __future__ import annotations

from collections.abc import Callable

from deployer.config.paths import backend_folder
from deployer.config.settings import Config
from deployer.errors import BackendError
from deployer.executors.registry import open_kube_on
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from deployer.wandb_api.server import Inside, Server


def connect(config: Config, tell: Callable[[str], None] = lambda _: None) -> Server:
    """Start the embedded backend if it is meant, and check the key.

    Where agents work in a cluster, it is in that cluster; what takes its time there is told.
    Raises ConfigError without a key, BackendError, WandbError, KubeError or CloudError.
    """
    if not config.embedded and not _is_own_backend(config):
        client = Client(config.wandb, config.require_key(), config.key_source)
        return Server(client, get_viewer(client), embedded=False)
    if config.embedded and config.backend_on != "local":
        return _connect_inside(config, tell)
    from deployer.backend.data_folder import KEY_FILE
    from deployer.backend.server.daemon import read_key, start_backend

    backend = start_backend(backend_folder())
    if trouble := backend.describe_trouble():
        tell(f"warning: {trouble.message} ({trouble.hint})")
    key_file = f"{backend.data} (deployer backend)"
    client = Client(backend.url, read_key(backend.data), key_file, near=True)
    return Server(
        client,
        get_viewer(client),
        embedded=True,
        key_file=backend.data / KEY_FILE,
        revive=_revive_backend,
    )


def _connect_inside(config: Config, tell: Callable[[str], None]) -> Server:
    """Reach the backend in a cluster through a port of this machine that lasts as we do."""
    from deployer.executors.kubernetes.backend.deployment import ensure_backend
    from deployer.executors.kubernetes.backend.manifests import KEY_SECRET
    from deployer.executors.kubernetes.backend.tunnel import build_pages_url, open_forward

    kube = open_kube_on(config.backend_on)
    backend = ensure_backend(kube, config.folder, config.backend_on, tell)
    forward = open_forward(kube, backend)
    client = Client(forward.url, backend.key, f"Secret {KEY_SECRET} in {backend.namespace}")
    inside = Inside(config.backend_on, backend.url, build_pages_url(kube))
    return Server(client, get_viewer(client), embedded=True, inside=inside)


def _is_own_backend(config: Config) -> bool:
    """Tell whether an address and a key from the environment are our own backend's.

    `eval "$(deployer backend env)"` says so in W&B's words.
    """
    if config.wandb != embedded_url():
        return False
    from deployer.backend.server.daemon import read_key

    return config.require_key() == read_key(backend_folder())


def _revive_backend() -> bool:
    from deployer.backend.server.daemon import revive_backend

    return revive_backend(backend_folder())


def embedded_url() -> str | None:
    """Return the address of this user's embedded backend if it runs; starts nothing."""
    from deployer.backend.server.daemon import backend_status

    try:
        backend = backend_status(backend_folder())
    except BackendError:
        return None
    return backend.url if backend and backend.running else None
