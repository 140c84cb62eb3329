"""Agents that work as W&B's do: a heartbeat every 5 s, a chunk of history every 15 s.

A delay is counted from when a request was due, so that a server that falls behind cannot hide it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.backend.client import CREATE_AGENT, HEARTBEAT, UPSERT_BUCKET
from tests.bench.load.connection import Connection
from tests.conftest import ServedBackend

BEAT_SECONDS = 5.0
CHUNK_SECONDS = 15.0
LINES = 50
PROJECT = "load"


@dataclass
class Fleet:
    """The agents of one sweep, and what their requests took."""

    backend: ServedBackend
    sweep: str
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    lines: int = 0
    failures: int = 0

    async def start(self, count: int, seconds: float) -> list[Member]:
        """Have agents join within so many seconds and begin their first runs."""
        members = [Member(self) for _ in range(count)]
        begin = time.monotonic()
        starts = [
            member.begin(begin + seconds * place / count) for place, member in enumerate(members)
        ]
        await asyncio.gather(*starts)
        return members

    async def work(self, members: list[Member], seconds: float) -> None:
        """Have all agents log for so many seconds, each at times of its own."""
        begin = time.monotonic()
        tasks = []
        for place, member in enumerate(members):
            share = place / len(members)
            beat = Rhythm(begin + share * BEAT_SECONDS, BEAT_SECONDS, begin + seconds)
            chunk = Rhythm(begin + share * CHUNK_SECONDS, CHUNK_SECONDS, begin + seconds)
            tasks += [beat.follow(member.beat), chunk.follow(member.log)]
        await asyncio.gather(*tasks)

    def note(self, kind: str, due: float) -> None:
        """Count a request that was answered."""
        self.milliseconds[kind].append(1000 * (time.monotonic() - due))


@dataclass(frozen=True)
class Rhythm:
    """When something is due: from `begin` on, every `period` seconds, until `end`."""

    begin: float
    period: float
    end: float

    async def follow(self, act: Callable[[float], Awaitable[None]]) -> None:
        """Act whenever it is due."""
        due = self.begin
        while due < self.end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await act(due)
            due += self.period


class Member:
    """One agent with its run, each on a connection of its own."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        backend = fleet.backend
        self._agent = Connection(backend.url, backend.key)
        self._stream = Connection(backend.url, backend.key)
        self._id, self.run = "", ""
        self._lines = 0

    async def begin(self, due: float) -> None:
        """Join the sweep, take a run and start it."""
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        due = time.monotonic()
        joined = await self._ask(
            "createAgent", due, CREATE_AGENT, sweep=self._fleet.sweep, host="h"
        )
        self._id = joined["agent"]["id"]
        while not self.run:
            due = time.monotonic()
            beat = await self._ask("first heartbeat", due, HEARTBEAT, id=self._id, runState="{}")
            commands = json.loads(beat["commands"])
            self.run = commands[0]["run_id"] if commands else ""
            await asyncio.sleep(0 if self.run else BEAT_SECONDS)
        await self._ask("upsertBucket", time.monotonic(), UPSERT_BUCKET, name=self.run, config="{}")

    async def beat(self, due: float) -> None:
        """Say that the run is alive."""
        state = json.dumps({self.run: True})
        await self._ask("heartbeat", due, HEARTBEAT, id=self._id, metrics="{}", runState=state)

    async def log(self, due: float) -> None:
        """Send the next lines of history and the summary."""
        steps = range(self._lines, self._lines + LINES)
        rows = [
            json.dumps(
                {"_step": step, "_timestamp": 1.7e9 + step, "loss": 1 / (step + 1), "lr": 0.1}
            )
            for step in steps
        ]
        files = {
            "wandb-history.jsonl": {"offset": self._lines, "content": rows},
            "wandb-summary.json": {"offset": 0, "content": rows[-1:]},
        }
        backend = self._fleet.backend
        place = f"/files/{backend.entity}/{PROJECT}/{self.run}/file_stream"
        status, _ = await self._stream.post(place, {"files": files})
        self._fleet.note("file_stream", due)
        if status != 200:
            self._fleet.failures += 1
            return
        self._lines += LINES
        self._fleet.lines += LINES

    async def _ask(self, kind: str, due: float, query: str, **variables: Any) -> dict[str, Any]:
        body = {"query": query, "variables": {"project": PROJECT, **variables}}
        status, content = await self._agent.post("/graphql", body)
        self._fleet.note(kind, due)
        if status != 200:
            raise RuntimeError(f"{kind}: {status} {content.decode()[:300]}")
        (answer,) = json.loads(content)["data"].values()
        return dict(answer)
