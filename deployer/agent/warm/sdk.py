"""Does once for all runs of an agent what the SDK would do in each of them.

Each function changes a module that this process has imported, for itself and its forks. An SDK
that does not look as expected stays unchanged. The names are those of wandb 0.22 to 0.31.
"""

import functools
import os
import sys
import time
from typing import Any, List, Tuple

PORT_FILE_MODULE = "wandb.sdk.lib.service.service_port_file"
LOOK_SECONDS = 0.005
# How the name of an installed distribution's record ends, in a folder of `sys.path`.
RECORDS = (".dist-info", ".egg-info", ".egg")


def look_sooner() -> None:
    """Shorten the wait for a wandb-core, which the SDK starts for every run.

    It polls every 0.2 s whether that process listens, although it does after 20 ms.
    """
    module: Any = sys.modules.get(PORT_FILE_MODULE)
    if hasattr(module, "_SLEEP"):
        module._SLEEP = sleep_shortly


def sleep_shortly(seconds: float) -> None:
    """Sleep, but not longer than until the next poll."""
    time.sleep(min(seconds, LOOK_SECONDS))


def keep_core() -> None:
    """Let an agent keep its wandb-core, which it ends after each run, and its session there.

    `wandb.teardown` in wandb_agent.py (0.22 to 0.31) is for runs of the agent's own process; those
    of a command have their own wandb-core. After it, 0.31 makes another `wandb.Api`, whose
    connections last for a minute or more: with short runs, hundreds at a time.
    """
    wandb: Any = sys.modules.get("wandb")
    if hasattr(wandb, "teardown") and hasattr(wandb, "Api"):
        wandb.teardown = lambda *_, **__: None
        wandb.Api = functools.lru_cache(maxsize=None)(wandb.Api)


def list_packages_once() -> None:
    """List the installed packages now; with 200 of them, the SDK takes 0.1 s in each run.

    A run lists them itself if its `sys.path` holds others, or if they have changed.
    """
    util: Any = sys.modules.get("wandb.util")
    list_anew = getattr(util, "working_set", None)
    if not list_anew:
        return
    folders = list_folders()
    packages = list(list_anew())

    def list_known() -> Any:
        now = list_folders()
        others = [path for path, _ in now if path not in dict(folders)]
        known = [one for one in now if one[0] not in others]
        if known == folders and not any(map(holds_packages, others)):
            return list(packages)
        return list_anew()

    util.working_set = list_known


def list_folders() -> List[Tuple[str, int]]:
    """Return the places of `sys.path`, and when each last changed in nanoseconds; 0 without it."""
    return [(path, read_change(path)) for path in sys.path]


def read_change(path: str) -> int:
    try:
        return os.stat(path or os.curdir).st_mtime_ns
    except OSError:
        return 0


def holds_packages(path: str) -> bool:
    try:
        return any(name.endswith(RECORDS) for name in os.listdir(path or os.curdir))
    except OSError:
        return True  # such as a zip file


def read_process_id_late() -> None:
    """Let each run's settings hold its own process id, whose CPU and memory usage is logged.

    Their default is the id of the process that imported them.
    """
    settings: Any = getattr(sys.modules.get("wandb.sdk.wandb_settings"), "Settings", None)
    field = getattr(settings, "model_fields", {}).get("x_stats_pid")
    if field is not None:
        field.default, field.default_factory = type(field)().default, os.getpid
        settings.model_rebuild(force=True)


def read_machine() -> None:
    """Read the machine's description, for which Python starts `uname`."""
    platform: Any = sys.modules.get("platform")
    if platform:
        platform.processor()
