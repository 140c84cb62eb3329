"""The only door to a W&B server: W&B's names become ours here and nowhere else."""

from deployer.wandb_api.client import Client
from deployer.wandb_api.model import (
    AgentInfo,
    RunInfo,
    Snapshot,
    SweepInfo,
    SweepPath,
    Viewer,
    build_sweep_url,
    parse_sweep_path,
)
from deployer.wandb_api.operations import (
    AGENT_KEYS,
    create_agent_keys,
    create_sweep,
    get_log_tail,
    get_snapshot,
    get_sweep,
    get_viewer,
    list_agents,
    list_runs,
    list_sweeps,
    set_sweep_state,
)

__all__ = [
    "AGENT_KEYS",
    "AgentInfo",
    "Client",
    "RunInfo",
    "Snapshot",
    "SweepInfo",
    "SweepPath",
    "Viewer",
    "build_sweep_url",
    "create_agent_keys",
    "create_sweep",
    "get_log_tail",
    "get_snapshot",
    "get_sweep",
    "get_viewer",
    "list_agents",
    "list_runs",
    "list_sweeps",
    "parse_sweep_path",
    "set_sweep_state",
]
