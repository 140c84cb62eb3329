"""Detects the death of an agent's wandb-core, and programs that block a starting agent.

In newer versions of wandb, an agent sends heartbeats through its own wandb-core. If that dies, the
agent stays silent, starts no other, and its requests for work are lost. This is harmless during a
run, since a run has its own wandb-core and the agent dies after it.
"""

import importlib.util
import os
from typing import Dict, List, Optional

from ..exit_codes import FAILED, AgentExit
from .processes import Process, describe_process, is_core, list_processes

LOOK_SECONDS = 5.0
MISSING_LOOKS = 3
# Number of polls that saw a program for which the starting agent waits: wandb calls git.
SLOW_LOOKS = 3
SLOW_SECONDS = (SLOW_LOOKS - 1) * LOOK_SECONDS

LOST = AgentExit(FAILED, "the agent's wandb-core died, and with it the agent's heartbeats")


class CoreWatch:
    """Polls whether the agent, a process id, has its wandb-core.

    `obstacle` describes the program that a starting agent waits for; empty if there is none.
    """

    def __init__(self, agent: int) -> None:
        self._agent = agent
        self._needed = heartbeats_need_core()
        self._next_look = 0.0
        self._seen = False
        self._begin()

    def reset(self) -> None:
        """Restart counting: the agent has a run, so it has had its wandb-core, and keeps it."""
        self._seen = True
        self._begin()

    def _begin(self) -> None:
        self._missing = 0
        self._asked: Dict[int, int] = {}
        self.obstacle = ""

    def judge(self, now: float) -> Optional[AgentExit]:
        """Return the agent's ending if its wandb-core has died; `now` in seconds, monotonic."""
        if self._needed and not self._seen and self._is_there():  # it may die before the first poll
            self._seen, self._missing = True, 0
        if self._needed and now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            there = self._is_there()
            self._seen = self._seen or there
            self._missing = 0 if there else self._missing + 1
            # Count the polls that saw each child, and report the first slow one.
            children = [] if self._seen else self._list_children()
            self._asked = {child.id: self._asked.get(child.id, 0) + 1 for child in children}
            slow = [child for child, looks in self._asked.items() if looks >= SLOW_LOOKS]
            said = f"has not answered for {SLOW_SECONDS:.0f} s"
            self.obstacle = describe_process(slow[0], said) if slow else ""
        return LOST if self._seen and self._missing >= MISSING_LOOKS else None

    def _is_there(self) -> bool:
        return any(map(is_core, self._list_children()))

    def _list_children(self) -> List[Process]:
        return [p for p in list_processes() if p.parent == self._agent and not p.ended]


def heartbeats_need_core() -> bool:
    """Check wandb's source; agents of older versions send heartbeats themselves."""
    wandb = importlib.util.find_spec("wandb")
    if wandb is None or wandb.origin is None:
        return False
    try:
        with open(os.path.join(os.path.dirname(wandb.origin), "wandb_agent.py"), "rb") as source:
            return b"import _agent_heartbeat" in source.read()
    except OSError:
        return False
