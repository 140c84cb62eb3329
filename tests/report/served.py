"""Sweeps on a real backend, and what a report reads of them."""

from __future__ import annotations

from deployer.model import SweepPath
from deployer.wandb_api.client import Client as ApiClient
from deployer.wandb_api.operations import get_viewer
from deployer.wandb_api.server import Server
from tests.backend.client import Client

NOW = 2_000_000_000.0


def open_server(client: Client, url: str = "") -> Server:
    """Return the server of a client as commands see it, perhaps through another address."""
    api = ApiClient(url or client.url, client.key, "a test")
    return Server(api, get_viewer(api), embedded=True)


def path_of(client: Client, sweep: str) -> SweepPath:
    """Return the path of a sweep of the client's project."""
    return SweepPath(client.entity, client.project, sweep)
