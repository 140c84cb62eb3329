"""Shortens how long the SDK waits for its wandb-core, which it starts anew for every run.

It looks every 0.2 s whether that process listens yet, which is so after 20 ms.
"""

import sys
import time
from typing import Any

PORT_FILE_MODULE = "wandb.sdk.lib.service.service_port_file"
LOOK_SECONDS = 0.005


def look_sooner() -> None:
    """Have the SDK of this process, and of its forks, look often; one without the wait stays."""
    module: Any = sys.modules.get(PORT_FILE_MODULE)
    if hasattr(module, "_SLEEP"):
        module._SLEEP = sleep_shortly


def sleep_shortly(seconds: float) -> None:
    """Sleep no longer than until the next look."""
    time.sleep(min(seconds, LOOK_SECONDS))
