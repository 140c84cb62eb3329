"""Refuses `wandb.init` in a script whose metrics a wrapper reads: the run is open already.

Two writers of one run would overwrite each other's rows.
"""

import functools
import os
import sys
from typing import Any

NOWHERE = ("disabled", "offline", "dryrun")
USAGE_ERROR = 2  # such runs are not tried again
SAID = (
    "deployer: `metrics:` in deployer.yaml reads this script's output, and the script calls"
    " wandb.init itself; remove `metrics:`, or call wandb.init with mode='disabled'\n"
)


def attach() -> None:
    """Have `wandb.init` of this process refuse."""
    __import__("deployer_sdk").await_module("wandb.sdk.wandb_init", refuse_runs)


def refuse_runs(module: Any) -> None:
    """Replace the SDK's function, which still makes runs that no server gets."""
    init = module.init

    @functools.wraps(init)
    def refuse_or_init(*arguments: Any, **named: Any) -> Any:
        mode = named.get("mode") or read_mode(named.get("settings")) or os.environ.get("WANDB_MODE")
        if mode not in NOWHERE:
            sys.stderr.write(SAID)
            sys.exit(USAGE_ERROR)
        return init(*arguments, **named)

    module.init = refuse_or_init


def read_mode(settings: Any) -> Any:
    """Return the mode in the settings that a script gives to `wandb.init`."""
    return settings.get("mode") if isinstance(settings, dict) else getattr(settings, "mode", None)
