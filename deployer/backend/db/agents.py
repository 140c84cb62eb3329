"""Agents: one row for each `wandb agent` that joined a sweep."""

from __future__ import annotations

from dataclasses import dataclass

from deployer.backend.db.database import Connection, insert, select, select_one
from deployer.backend.db.sweeps import Sweep
from deployer.backend.db.users.accounts import Caller
from deployer.backend.refusal import not_found


@dataclass(frozen=True)
class Agent:
    """An agent; `name` is the one its own key was made for, else its host's.

    `node` is where its pod is, if its supervisor has told.
    """

    id: int
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
    row_id = insert(
        db,
        "agents",
        sweep_id=sweep.id,
        key_id=caller.key_id if caller.agent_name else None,
        name=caller.agent_name or host,
        host=host,
        created_at=now,
        node=key["node"] if key else "",
    )
    return agent_by_id(db, row_id)


def agent_by_id(db: Connection, agent_id: int) -> Agent:
    """Return an agent; refuse with 404 if there is none."""
    agent = select_one(db, Agent, "agents WHERE id = ?", agent_id)
    if agent is None:
        raise not_found("agent")
    return agent


def find_agent(db: Connection, sweep: Sweep, name: str) -> Agent | None:
    """Return a sweep's newest agent of that name."""
    tail = "agents WHERE sweep_id = ? AND name = ? ORDER BY id DESC"
    return select_one(db, Agent, tail, sweep.id, name)


def end_agents(db: Connection, sweep_id: int, name: str, now: float) -> None:
    """Note that the supervised agents of that name have ended."""
    db.execute(
        "UPDATE agents SET ended_at = ? WHERE sweep_id = ? AND name = ? AND key_id IS NOT NULL"
        " AND ended_at IS NULL",
        (now, sweep_id, name),
    )


def list_agents(db: Connection, sweep: Sweep) -> list[Agent]:
    """Return a sweep's agents that have reported at least once, oldest first."""
    tail = "agents WHERE sweep_id = ? AND heartbeat_at IS NOT NULL ORDER BY id"
    return select(db, Agent, tail, [sweep.id])
