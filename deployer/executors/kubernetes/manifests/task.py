"""The inputs of one Job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class AgentTask:
    """One agent, and the objects it needs; `code` is empty where the image's code runs.

    `agents` are all of its pod, itself the first, each with its key in the Secret.
    `code` names the ConfigMaps of the archive's parts, `claims` the claim of each volume that comes
    from NFS. The Job is ended after `max_seconds`, if not None, whatever its agent does.
    """

    name: str
    sweep_path: str
    base_url: str
    environment: tuple[tuple[str, str], ...]
    secret_name: str
    secret_key: str
    supervisor: str
    code: tuple[str, ...]
    claims: Mapping[str, str]
    avoided_nodes: tuple[str, ...] = ()
    max_seconds: float | None = None
    agents: tuple[tuple[str, str], ...] = ()

    @property
    def is_pack(self) -> bool:
        """Tell whether the pod has several agents."""
        return len(self.agents) > 1
