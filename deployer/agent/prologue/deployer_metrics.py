"""Lets a script whose metrics a wrapper reads open its run itself: then there is one run, its own.

The wrapper lets go of what it has opened before the script's `wandb.init` begins.
"""

import functools
import os
import sys
import time
from typing import Any

CLAIM = "DEPLOYER_METRICS_CLAIM"  # metric_wrapper.py
RELEASED = ".released"
SECONDS = 120.0  # longer than the wrapper's own `wandb.init` waits for a server
TICK_SECONDS = 0.05
NOWHERE = ("disabled", "offline", "dryrun")


def attach() -> None:
    """Have `wandb.init` of this process wait for the wrapper."""
    __import__("deployer_sdk").await_module("wandb.sdk.wandb_init", add_claim)


def add_claim(module: Any) -> None:
    """Have the SDK's function claim the run first, unless it makes none on the server."""
    init = module.init

    @functools.wraps(init)
    def claim_and_init(*arguments: Any, **named: Any) -> Any:
        mode = named.get("mode") or read_mode(named.get("settings")) or os.environ.get("WANDB_MODE")
        if mode not in NOWHERE:
            claim(os.environ[CLAIM])
        return init(*arguments, **named)

    module.init = claim_and_init


def read_mode(settings: Any) -> Any:
    """Return the mode in the settings that a script gives to `wandb.init`."""
    return settings.get("mode") if isinstance(settings, dict) else getattr(settings, "mode", None)


def claim(path: str) -> None:
    """Ask the wrapper to let go of the run, and wait until it has."""
    try:
        with open(path, "w", encoding="utf-8"):
            pass
    except OSError as error:
        sys.stderr.write(f"deployer: the run cannot be claimed: {error}\n")
        return
    deadline = time.monotonic() + SECONDS
    while not os.path.exists(path + RELEASED) and time.monotonic() < deadline:
        time.sleep(TICK_SECONDS)
