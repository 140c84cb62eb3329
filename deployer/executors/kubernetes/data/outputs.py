"""What agents are told about the object store for outputs; pure."""

from __future__ import annotations

from dataclasses import replace

from deployer.config.kubernetes_section import ClusterConfig
from deployer.config.outputs_section import OutputsConfig


def add_outputs(cluster: ClusterConfig, outputs: OutputsConfig) -> ClusterConfig:
    """Return what agents get, with the address for outputs and the credentials from its Secret."""
    if outputs.url is None:
        return cluster
    return replace(
        cluster,
        env={**dict(outputs.environment), **cluster.env},
        secrets={**outputs.secrets, **cluster.secrets},
    )
