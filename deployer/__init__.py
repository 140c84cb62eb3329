"""Run a Weights & Biases sweep on this machine or a cluster.

The public Python API is `deployer.api`. Nothing is imported here, because every supervisor imports
this.
"""

from __future__ import annotations


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        from deployer.installation import DISTRIBUTION

        return version(DISTRIBUTION)
    raise AttributeError(f"module 'deployer' has no attribute '{name}'")
