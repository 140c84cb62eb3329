"""Asks an embedded backend on this machine as a watcher does: one that died is started again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from deployer.errors import WandbError
from deployer.transience import NO_ANSWER
from deployer.waiting import retry
from deployer.wandb_api.server import Server

LOG = logging.getLogger(__name__)

T = TypeVar("T")
REVIVED = "restarted the embedded backend, which had died"
TRIES = 5
PAUSE_SECONDS = 1.0


def ask_patiently(
    server: Server,
    ask: Callable[[], T],
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Return what `ask` does, which may be called again; other servers are asked once.

    Raises WandbError, or BackendError if the backend was stopped or does not come up again.
    """
    if not server.embedded or server.inside is not None:
        return ask()

    def may_pass(error: WandbError) -> bool:
        if error.status == NO_ANSWER and server.revive():
            LOG.info(REVIVED)
        return error.status == NO_ANSWER

    return retry(ask, WandbError, may_pass, sleep, lambda *_: PAUSE_SECONDS, TRIES)
