"""Agents in a pod that log to a backend which goes away, and count what it acknowledged.

It says every second how many lines were acknowledged so far, and at last how many the public API
reads. The server and the key are those of the environment.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any

from tests.backend.client import CREATE_AGENT, HEARTBEAT, UPSERT_BUCKET, UPSERT_SWEEP
from tests.bench.load.bench import SWEEP
from tests.bench.load.connection import Connection

AGENTS = 64
CHUNKS = 20
LINES = 50
PAUSE_SECONDS = 2.0
ANSWER_SECONDS = 10.0  # of a pod that is gone with its address, nothing comes any more
PROJECT = "load"


@dataclass
class Agents:
    """The agents of one sweep, the runs that they have, and the lines that were acknowledged."""

    url: str
    key: str
    entity: str = ""
    lines: dict[str, int] = field(default_factory=dict)

    async def work(self, sweep: str) -> None:
        """Have one agent take a run and log."""
        connection = Connection(self.url, self.key)
        agent = (await self._ask(connection, CREATE_AGENT, sweep=sweep, host="h"))["agent"]["id"]
        commands = "[]"
        while commands == "[]":
            beat = await self._ask(connection, HEARTBEAT, id=agent, runState="{}")
            commands = beat["commands"]
        run = json.loads(commands)[0]["run_id"]
        await self._ask(connection, UPSERT_BUCKET, name=run, config="{}")
        self.lines[run] = 0
        for _ in range(CHUNKS):
            begin = self.lines[run]
            steps = range(begin, begin + LINES)
            rows = [json.dumps({"_step": step, "loss": 1 / (step + 1)}) for step in steps]
            files = {"wandb-history.jsonl": {"offset": begin, "content": rows}}
            place = f"/files/{self.entity}/{PROJECT}/{run}/file_stream"
            await _send(connection, place, {"files": files})
            self.lines[run] += LINES
            await asyncio.sleep(PAUSE_SECONDS)

    async def make_sweep(self) -> str:
        """Make the sweep, and learn whose it is."""
        connection = Connection(self.url, self.key)
        document = "query V($project: String) { viewer { entity } project(name: $project) { id } }"
        self.entity = (await self._ask(connection, document))["entity"]
        made = await self._ask(connection, UPSERT_SWEEP, config=json.dumps(SWEEP))
        return str(made["sweep"]["name"])

    async def say(self) -> None:
        """Say how far they are, every second."""
        while True:
            _say(str(sum(self.lines.values())))
            await asyncio.sleep(1.0)

    async def _ask(self, connection: Connection, query: str, **variables: Any) -> dict[str, Any]:
        body = {"query": query, "variables": {"project": PROJECT, **variables}}
        answer, *_ = json.loads(await _send(connection, "/graphql", body))["data"].values()
        return dict(answer)


async def _send(connection: Connection, place: str, body: dict[str, Any]) -> bytes:
    """Send a request until it is acknowledged, as the SDK does."""
    for _ in itertools.count():
        try:
            status, content = await asyncio.wait_for(connection.post(place, body), ANSWER_SECONDS)
        except (OSError, TimeoutError):
            connection.close()
        else:
            if status < 500:
                assert status == 200, content
                return content
        await asyncio.sleep(0.5)
    raise AssertionError


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def read_steps(agents: Agents) -> dict[str, list[int]]:
    """Return the steps of each run as the public API has them."""
    import wandb

    runs = wandb.Api().runs(f"{agents.entity}/{PROJECT}")
    return {run.id: [row["_step"] for row in run.scan_history(keys=["_step"])] for run in runs}


async def main() -> None:
    """Work, then compare."""
    agents = Agents(os.environ["WANDB_BASE_URL"], os.environ["WANDB_API_KEY"])
    sweep = await agents.make_sweep()
    saying = asyncio.create_task(agents.say())
    await asyncio.gather(*(agents.work(sweep) for _ in range(AGENTS)))
    saying.cancel()
    steps = await asyncio.to_thread(read_steps, agents)
    expected = {run: list(range(lines)) for run, lines in agents.lines.items()}
    kept = sum(map(len, steps.values()))
    _say(json.dumps({"acknowledged": sum(agents.lines.values()), "kept": kept}))
    assert steps == expected
