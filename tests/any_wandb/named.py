"""The server that is named for the tests, on its way through their environment."""

from __future__ import annotations

import os

from tests.conftest import WandbServer

URL, KEY, ENTITY, STAMP = (
    f"DEPLOYER_TEST_WANDB_{part}" for part in ("URL", "KEY", "ENTITY", "STAMP")
)


def write_named(server: WandbServer, stamp: str) -> dict[str, str]:
    """Return the variables that name a server; `stamp` tells this round from others on it."""
    return {URL: server.url, KEY: server.key, ENTITY: server.entity, STAMP: stamp}


def read_named() -> tuple[WandbServer, str] | None:
    """Return the server that is named, and the stamp."""
    if URL not in os.environ:
        return None
    return WandbServer(os.environ[URL], os.environ[KEY], os.environ[ENTITY]), os.environ[STAMP]
