"""Agents: one row for each `wandb agent` that joined a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deployer.backend.db.accounts import Caller
from deployer.backend.db.rows import Connection, Row, insert, select
from deployer.backend.db.sweeps import Sweep


@dataclass(frozen=True)
class Agent(Row):
    """An agent; `name` is the one its own key was made for, else its host's.

    `node` is where its pod is, if its supervisor has told.
    """

    table: ClassVar = "agents"
    noun: ClassVar = "agent"

    sweep_id: int
    key_id: int | None
    name: str
    host: str
    created_at: float
    heartbeat_at: float | None
    ended_at: float | None
    node: str

    @property
    def supervised(self) -> bool:
        """Tell whether a supervisor looks after it, with a key of its own."""
        return self.key_id is not None


def create_agent(db: Connection, caller: Caller, sweep: Sweep, host: str, now: float) -> Agent:
    """Add an agent; a repeated request adds another one, which never gets a run."""
    key = db.execute("SELECT node FROM keys WHERE id = ?", (caller.key_id,)).fetchone()
    return insert(
        db,
        Agent,
        sweep_id=sweep.id,
        key_id=caller.key_id if caller.agent_name else None,
        name=caller.agent_name or host,
        host=host,
        created_at=now,
        node=key["node"] if key else "",
    )


def end_agents(db: Connection, sweep_id: int, name: str, now: float) -> None:
    """Note that the supervised agents of that name have ended."""
    db.execute(
        "UPDATE agents SET ended_at = ? WHERE sweep_id = ? AND name = ? AND key_id IS NOT NULL"
        " AND ended_at IS NULL",
        (now, sweep_id, name),
    )


def list_agents(db: Connection, sweep: Sweep) -> list[Agent]:
    """Return a sweep's agents that have reported at least once, oldest first."""
    tail = "WHERE sweep_id = ? AND heartbeat_at IS NOT NULL ORDER BY id"
    return select(db, Agent, tail, sweep.id)
