"""Run a Weights & Biases sweep on this machine or a cluster.

The public Python API is `deployer.api`; its names are also here, loaded when first used, so that
`import deployer` stays light: every supervisor does it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["apply", "connect", "create_sweep", "plan", "results", "watch"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("deployer")
    if name in __all__:
        from deployer import api

        return getattr(api, name)
    raise AttributeError(f"module 'deployer' has no attribute '{name}'")
