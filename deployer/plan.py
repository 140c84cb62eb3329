"""What `apply` will do, worked out before anything is touched; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AgentPlan:
    """One agent: its name, its GPU ids (empty on CPU) and its environment, without secrets."""

    name: str
    gpus: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Plan:
    """The agents that shall work on one sweep, in `folder`, talking to `base_url`."""

    sweep_path: str
    base_url: str
    folder: str
    agents: tuple[AgentPlan, ...]
