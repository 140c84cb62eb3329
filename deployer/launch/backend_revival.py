"""Asks an embedded backend on this machine as a watcher does: one that died is started again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from deployer.errors import WandbError
from deployer.wandb_api.server import Server

T = TypeVar("T")
REVIVED = "the embedded backend had died and is started again"
TRIES = 5
PAUSE_SECONDS = 1.0


def ask_patiently(
    server: Server,
    ask: Callable[[], T],
    tell: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Return what `ask` does, which may be called again; other servers are asked once.

    Raises WandbError, or BackendError if the backend was stopped or does not come up again.
    """
    for _ in range(TRIES - 1 if server.embedded and server.inside is None else 0):
        try:
            return ask()
        except WandbError as error:
            if error.status != 0:
                raise
            if server.revive():
                tell(REVIVED)
            sleep(PAUSE_SECONDS)
    return ask()
