"""The inputs of one Job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class AgentTask:
    """A pod's agents, and the objects they need; `code` is empty where the image's code runs.

    `agents` are their names, each with its key in the Secret; the first names the Job. Without a
    `secret_name` they log in by a token of their service account.
    `code` names the ConfigMaps of the archive's parts, `claims` the claim of each volume that comes
    from NFS. The Job is ended after `max_seconds`, if not None, whatever its agents do.
    """

    agents: tuple[tuple[str, str], ...]
    sweep_path: str
    base_url: str
    environment: tuple[tuple[str, str], ...]
    secret_name: str
    supervisor: str
    code: tuple[str, ...]
    claims: Mapping[str, str]
    avoided_nodes: tuple[str, ...] = ()
    max_seconds: float | None = None

    @property
    def name(self) -> str:
        """The name of the first agent."""
        return self.agents[0][0]

    @property
    def secret_key(self) -> str:
        """The key of the first agent."""
        return self.agents[0][1]

    @property
    def is_pack(self) -> bool:
        """Tell whether the pod has several agents."""
        return len(self.agents) > 1
