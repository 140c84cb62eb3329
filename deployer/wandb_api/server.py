"""The W&B server in use: started if it is ours, its key checked by a real query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deployer.config.paths import backend_folder
from deployer.config.settings import Config
from deployer.errors import BackendError
from deployer.executors.registry import open_kube_on
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import SweepPath, Viewer, build_sweep_url
from deployer.wandb_api.operations import AGENT_KEYS, REQUEUE, get_viewer

# What W&B's own servers leave to luck, in one line.
NOT_GUARANTEED = (
    "not guaranteed by this server: each configuration exactly once, interrupted runs handed out "
    "again, retries, repeatable draws; results counts what is lost or doubled, "
    "deployer heal runs what is missing"
)


@dataclass(frozen=True)
class Inside:
    """An embedded backend in the cluster that `--on` names `on`.

    Agents reach it at `url`; people at `pages_url`, as long as `deployer backend open` runs.
    """

    on: str
    url: str
    pages_url: str


@dataclass(frozen=True)
class Server:
    """A server that answered and knows our key; `inside` says where, if that is in a cluster."""

    client: Client
    viewer: Viewer
    embedded: bool
    inside: Inside | None = None

    @property
    def url(self) -> str:
        """The base URL, as agents get it."""
        return self.inside.url if self.inside else self.client.base_url

    @property
    def name(self) -> str:
        """What `--wandb` takes to mean this server."""
        return "embedded" if self.embedded else self.url

    @property
    def extended(self) -> bool:
        """Tell whether this server has what the embedded backend has beyond W&B's."""
        return AGENT_KEYS in self.client.mutations

    @property
    def can_requeue(self) -> bool:
        """Tell whether this server can hand out again what it has ended."""
        return REQUEUE in self.client.mutations

    def sweep_url(self, path: SweepPath) -> str:
        """Return the address of a sweep's page for people."""
        return build_sweep_url(self.inside.pages_url if self.inside else self.url, path)

    @property
    def login_hint(self) -> str:
        """Say which key opens the results page, where it is not the user's own W&B log-in."""
        if self.inside:
            return f" (deployer backend open --on {self.inside.on} opens it)"
        from deployer.backend.server.data_folder import KEY_FILE

        return f" (log in with the key in {backend_folder() / KEY_FILE})" if self.embedded else ""

    def describe(self) -> str:
        """Say where to in one line."""
        kind = "embedded W&B backend" if self.embedded else "W&B server"
        return f"{kind} {self.url} as {self.viewer.name or self.viewer.entity}"

    def revive(self) -> bool:
        """Serve the embedded backend again if its process is gone, at the same address.

        In a cluster, Kubernetes does. Tell whether it was gone; raises BackendError if it does not
        come up.
        """
        return self.inside is None and _revive_backend()


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
    from deployer.backend.server.daemon import read_key, start_backend

    backend = start_backend(backend_folder())
    key_file = f"{backend.data} (deployer backend)"
    client = Client(backend.url, read_key(backend.data), key_file)
    return Server(client, get_viewer(client), embedded=True)


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
    from deployer.backend.server.daemon import backend_status, start_backend

    data = backend_folder()
    status = backend_status(data)
    if status is not None and status.running:
        return False
    start_backend(data)
    return True


def embedded_url() -> str | None:
    """Return the address of this user's embedded backend if it runs; starts nothing."""
    from deployer.backend.server.daemon import backend_status

    try:
        backend = backend_status(backend_folder())
    except BackendError:
        return None
    return backend.url if backend and backend.running else None
