"""Shortens the SDK's wait for its wandb-core, which it starts for every run.

The SDK polls every 0.2 s whether that process listens, although it does after 20 ms.
"""

import sys
import time
from typing import Any

PORT_FILE_MODULE = "wandb.sdk.lib.service.service_port_file"
LOOK_SECONDS = 0.005


def look_sooner() -> None:
    """Make the SDK in this process and its forks poll more often; skip SDKs without the wait."""
    module: Any = sys.modules.get(PORT_FILE_MODULE)
    if hasattr(module, "_SLEEP"):
        module._SLEEP = sleep_shortly


def sleep_shortly(seconds: float) -> None:
    """Sleep, but not longer than until the next poll."""
    time.sleep(min(seconds, LOOK_SECONDS))
