"""A backend without HTTP, played by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deployer.backend.db.accounts import (
    Caller,
    ProjectRow,
    create_agent_key,
    create_user,
    ensure_project,
    find_caller,
)
from deployer.backend.db.attempts import list_attempts
from deployer.backend.db.rows import change, find, get
from deployer.backend.db.runs import RunRow, create_agent
from deployer.backend.db.sweeps import SweepRow, create_sweep
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.dispatch import heartbeat, succeed_predecessors
from deployer.backend.scheduling.suggestions import NotReady
from deployer.backend.server.file_stream import apply_chunk, parse_chunk
from tests.backend.client import grid

KEY = "k" * 40


class Bench:
    """A backend without HTTP, with agents that a test plays by hand and a clock it moves."""

    def __init__(self, folder: Path) -> None:
        self.seconds = 1000.0
        self.backend = Backend(folder, now=self.clock, monotonic=self.clock)
        with self.backend.store.transaction() as db:
            create_user(db, "me", KEY, self.seconds)
            caller = find_caller(db, KEY)
        assert caller is not None
        self.me = caller

    def clock(self) -> float:
        return self.seconds

    def sweep(self, **extra: Any) -> SweepRow:
        config = {**grid(x=[1, 2, 3]), **extra}
        with self.backend.store.transaction() as db:
            project = ensure_project(db, self.me, None, "p", self.seconds)
            return create_sweep(db, self.me, project, yaml.safe_dump(config), self.seconds)

    def agent(self, sweep: SweepRow, name: str = "") -> tuple[int, Caller]:
        """Join a sweep; with a name, under a supervisor and with a key of its own."""
        with self.backend.store.transaction() as db:
            caller = self.me
            if name:
                key = create_agent_key(db, self.me, sweep.id, name, self.seconds)
                caller = find_caller(db, key) or caller
            agent = create_agent(db, caller, sweep, "host", self.seconds)
            succeed_predecessors(self.backend, db, agent)
        return agent.id, caller

    def beat(self, agent: tuple[int, Caller], *alive: str) -> dict[str, Any]:
        """Send a heartbeat, again if a model had to be waited for."""
        try:
            commands = heartbeat(self.backend, agent[0], set(alive))
        except NotReady as early:
            early.ready.result()
            commands = heartbeat(self.backend, agent[0], set(alive), waited_seconds=1.0)
        return commands[0] if commands else {"type": "wait"}

    def take(self, agent: tuple[int, Caller]) -> str:
        """Take the next run and start it."""
        command = self.beat(agent)
        assert command["type"] in ("run", "resume"), command
        name: str = command["run_id"]
        with self.backend.store.transaction() as db:
            now = self.seconds
            change(db, self.run(name), state="running", started_at=now, heartbeat_at=now)
        self.backend.presence.seen("run", self.run(name).id)
        return name

    def run(self, name: str) -> RunRow:
        with self.backend.store.transaction() as db:
            run = find(db, RunRow, project_id=get(db, ProjectRow, 1).id, name=name)
        assert run is not None
        return run

    def send(self, name: str, **chunk: Any) -> None:
        with self.backend.store.transaction() as db:
            apply_chunk(self.backend, db, self.run(name), parse_chunk(chunk))

    def causes(self, name: str) -> list[str | None]:
        with self.backend.store.transaction() as db:
            return [attempt.cause for attempt in list_attempts(db, self.run(name))]

    def state(self, sweep: SweepRow) -> tuple[str, str | None]:
        with self.backend.store.transaction() as db:
            found = get(db, SweepRow, sweep.id)
        return found.state, found.stop_reason
