"""Notices that an agent has lost its wandb-core.

In newer versions of wandb an agent's heartbeats go through a wandb-core of its own. If that one
dies the agent says nothing, starts no other and goes on asking nobody for work, for ever. While a
run is going this does no harm, since a run has a wandb-core of its own and the agent dies after it.
"""

import importlib.util
import os

from .processes import is_core, list_processes

LOOK_SECONDS = 5.0
MISSING_LOOKS = 3
UNSEEN_LOOKS = 24  # an agent starts it after seconds, and on a busy machine after a minute


class CoreWatch:
    """Looks now and then whether the agent, a process id, has its wandb-core."""

    def __init__(self, agent: int) -> None:
        self._agent = agent
        self._needed = heartbeats_need_core()
        self._next_look = 0.0
        self._missing = 0
        self._seen = False

    def reset(self) -> None:
        """Begin to count anew: the agent has a run, after which it starts another wandb-core."""
        self._missing = 0
        self._seen = False

    def is_lost(self, now: float) -> bool:
        """Tell whether it was missing in several looks in a row; `now` in seconds, monotonic."""
        if self._needed and now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            there = self._is_there()
            self._missing = 0 if there else self._missing + 1
            self._seen = self._seen or there
        return self._missing >= (MISSING_LOOKS if self._seen else UNSEEN_LOOKS)

    def _is_there(self) -> bool:
        children = (p for p in list_processes() if p.parent == self._agent and not p.ended)
        return any(map(is_core, children))


def heartbeats_need_core() -> bool:
    """Tell by wandb's source; older versions send heartbeats themselves."""
    wandb = importlib.util.find_spec("wandb")
    if wandb is None or wandb.origin is None:
        return False
    try:
        with open(os.path.join(os.path.dirname(wandb.origin), "wandb_agent.py"), "rb") as source:
            return b"import _agent_heartbeat" in source.read()
    except OSError:
        return False
